"""A random life of a spool on a disk that forgets: what was promised is readable, or named as lost, or with the edge."""

import random
import shutil
import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from farmiq.spool import SyncPolicy, disk
from support.forgetting_disk import Choose, Fault, Kind, all_it_can
from unit.spool.conftest import IN_MEMORY
from unit.spool.spool_life import SpoolLife, Trouble
from unit.spool.spool_world import small


def chosen_by(rng: random.Random) -> Choose:
    return rng.randrange


# Most calls of the disk are made by few operations, so early calls are drawn more often.
FAULTS = st.builds(Fault, st.sampled_from(Kind), st.integers(1, 6) | st.integers(1, 60))
SURVIVES = st.builds(chosen_by, st.randoms(use_true_random=False))
TROUBLES = st.builds(Trouble, FAULTS, st.none() | SURVIVES)
MAYBE = st.none() | TROUBLES
AT_THE_START = st.lists(TROUBLES, max_size=2)
SHARES = st.floats(0, 1)


class RandomLife(RuleBasedStateMachine):
    @initialize(policy=st.sampled_from(SyncPolicy), keep_acked_bytes=st.sampled_from([0, 9000]))
    def begin(self, policy: SyncPolicy, keep_acked_bytes: int) -> None:
        self.root = Path(tempfile.mkdtemp(dir=IN_MEMORY if IN_MEMORY.is_dir() else None, prefix="farmiq-spool-"))
        limits = small(grow_bytes=2048, max_spool_bytes=6 * 4096, keep_acked_bytes=keep_acked_bytes)
        self.life = SpoolLife(self.root, limits, policy)

    @rule(count=st.sampled_from([1, 2, 3, 30, 76, 77, 160]), trouble=MAYBE)
    def append(self, count: int, trouble: Trouble | None) -> None:
        self.life.append(count, trouble)

    @rule(trouble=MAYBE)
    def sync(self, trouble: Trouble | None) -> None:
        self.life.sync(trouble)

    @rule(share=SHARES, is_gappy=st.booleans(), trouble=MAYBE)
    def acknowledge(self, share: float, is_gappy: bool, trouble: Trouble | None) -> None:
        self.life.acknowledge(share, is_gappy=is_gappy, trouble=trouble)

    @rule(trouble=MAYBE)
    def acknowledge_losses(self, trouble: Trouble | None) -> None:
        self.life.acknowledge_losses(trouble)

    @rule(share=SHARES, trouble=MAYBE)
    def restore_the_edge(self, share: float, trouble: Trouble | None) -> None:
        self.life.go_back(share, trouble)

    @rule(trouble=MAYBE)
    def trim(self, trouble: Trouble | None) -> None:
        self.life.trim(trouble)

    @rule(number=st.integers(1, 5), trouble=MAYBE)
    def give_up(self, number: int, trouble: Trouble | None) -> None:
        self.life.give_up(UUID(int=number), number * 20, trouble)

    @rule(is_clean=st.booleans(), is_new_boot=st.booleans(), troubles=AT_THE_START)
    def restart(self, is_clean: bool, is_new_boot: bool, troubles: list[Trouble]) -> None:
        self.life.restart(is_clean=is_clean, is_new_boot=is_new_boot, troubles=troubles)

    @rule(survives=SURVIVES, troubles=AT_THE_START)
    def cut_the_power(self, survives: Choose, troubles: list[Trouble]) -> None:
        self.life.cut_power(survives, troubles)

    @invariant()
    def what_was_promised_is_accounted_for(self) -> None:
        if hasattr(self, "life"):
            self.life.check()

    def teardown(self) -> None:
        if hasattr(self, "life"):
            self.life.end()
            shutil.rmtree(self.root)


@pytest.mark.parametrize("left_out", ["sync_data", "sync_file", "sync_folder"])
def test_a_spool_that_leaves_out_a_sync_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    monkeypatch.setattr(disk, left_out, lambda _: None)
    life = SpoolLife(tmp_path, small(), SyncPolicy.GROUP)
    life.append(100)
    life.give_up(UUID(int=1), 5)
    with pytest.raises(AssertionError):
        life.cut_power(all_it_can)
    life.end()


RandomLife.TestCase.settings = settings(max_examples=120, stateful_step_count=30)
TestRandomLife = RandomLife.TestCase
