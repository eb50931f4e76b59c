"""A random life of a spool beside a model of it: what was promised is readable, or named as lost, or with the edge."""

import shutil
import tempfile
from pathlib import Path
from uuid import UUID

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from farmiq.spool import SyncPolicy
from unit.spool.conftest import IN_MEMORY
from unit.spool.spool_world import kept, lost, open_spool, samples, small

REGION = 512
BLOCK = 512


class SpoolLife(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from([SyncPolicy.ALWAYS, SyncPolicy.GROUP]), budget=st.sampled_from([0, 9000]))
    def begin(self, policy: SyncPolicy, budget: int) -> None:
        place = IN_MEMORY if IN_MEMORY.is_dir() else None
        self.folder = Path(tempfile.mkdtemp(dir=place, prefix="farmiq-spool-"))
        self.limits = small(max_spool_bytes=6 * 4096, keep_acked_bytes=budget)
        self.policy = policy
        self.boot = 1
        self.taken = 0  # samples made so far, each with a value of its own
        self.written: dict[int, float] = {}
        self.promised = 0
        self.at_edge: set[int] = set()
        self.marks = [b""]
        self.open()

    def open(self) -> None:
        self.spool = open_spool(self.folder, self.limits, self.policy, UUID(int=self.boot))
        self.note()

    def note(self) -> None:
        self.promised = max(self.promised, self.spool.safe_seq)
        self.marks.append((self.folder / "synced").read_bytes())

    @rule(count=st.sampled_from([1, 2, 3, 30, 76, 77, 160]))
    def append(self, count: int) -> None:
        span = self.spool.append_many(samples(count, self.taken + 1))
        assert span is not None
        assert span[1] - span[0] + 1 == count
        assert span[0] > self.promised
        self.written.update((span[0] + i, float(self.taken + 1 + i)) for i in range(count))
        self.taken += count
        self.note()

    @rule()
    def sync(self) -> None:
        self.spool.sync()
        self.note()

    @rule(share=st.floats(0, 1), is_gappy=st.booleans())
    def acknowledge(self, share: float, is_gappy: bool) -> None:
        seq = int(self.spool.synced_seq * share)
        received = [(seq + 3, seq + 9)] if is_gappy and seq + 9 <= self.spool.synced_seq else []
        self.spool.acknowledge(seq, received)
        self.at_edge |= {number for first, last in received for number in range(first, last + 1)}

    @rule()
    def trim(self) -> None:
        self.spool.trim()

    @rule(share=st.floats(0, 1))
    def restore_the_edge(self, share: float) -> None:
        self.at_edge.clear()
        self.spool.go_back(int(self.spool.acked.seq * share), f"epoch-{self.taken}")

    @rule(is_clean=st.booleans(), is_new_boot=st.booleans())
    def restart(self, is_clean: bool, is_new_boot: bool) -> None:
        self.spool.close() if is_clean else self.spool.release()
        self.boot += is_new_boot
        self.open()

    @rule(data=st.data(), is_prefix=st.booleans())
    def cut_the_power(self, data: st.DataObject, is_prefix: bool) -> None:
        """Synced bytes stay. Of the others some blocks stay, or a prefix, and the rest reads as zeros."""
        synced_seq = self.spool.synced_seq
        self.spool.release()
        for path in self.folder.glob("*.open"):
            content = path.read_bytes()
            safe = REGION + max(0, synced_seq - int(path.stem) + 1) * 40
            survived = bytearray(content[:safe].ljust(len(content), b"\0"))
            if is_prefix:
                end = data.draw(st.integers(safe, len(content)))
                survived[safe:end] = content[safe:end]
            else:
                for block in range(safe // BLOCK, -(-len(content) // BLOCK)):
                    if data.draw(st.booleans()):
                        start = max(safe, block * BLOCK)
                        survived[start : (block + 1) * BLOCK] = content[start : (block + 1) * BLOCK]
            path.write_bytes(survived)
        back = data.draw(st.integers(1, min(5, len(self.marks))), label="mark set back")
        (self.folder / "synced").write_bytes(self.marks[-back])
        self.boot += 1
        self.open()

    @precondition(lambda self: hasattr(self, "spool"))
    @invariant()
    def what_was_promised_is_accounted_for(self) -> None:
        readable = kept(self.spool)
        accounted = readable.keys() | lost(self.spool) | self.at_edge | set(range(1, self.spool.acked.seq + 1))
        assert set(range(1, self.promised + 1)) <= accounted
        assert all(self.written[seq] == frame.value for seq, frame in readable.items())
        assert self.spool.usage().spool_bytes <= self.limits.max_spool_bytes

    def teardown(self) -> None:
        if hasattr(self, "spool"):
            self.spool.release()
            shutil.rmtree(self.folder)


SpoolLife.TestCase.settings = settings(max_examples=80, stateful_step_count=30, deadline=None)
TestSpoolLife = SpoolLife.TestCase
