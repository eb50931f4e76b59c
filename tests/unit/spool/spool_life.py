"""The life of a spool on a disk that forgets, and beside it an account of what the spool has promised.

Whatever meets it in the middle of whatever call: every sequence that was promised is readable with its own value, or named
in the loss journal, or with the edge. And afterwards the spool is written to again.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from uuid import UUID

from farmiq.spool import Cause, Limits, Loss, Spool, SpoolFull, SyncFailed, SyncPolicy
from support.forgetting_disk import Choose, Ended, Fault, ForgettingDisk
from unit.spool.spool_world import START_US, kept, lost, open_spool, samples

WALL_US = (START_US, START_US + 1000)


@dataclass(frozen=True)
class Trouble:
    """A fault on the disk. When it ends the process, then by a power cut if there is a choice of what survives it."""

    fault: Fault
    survives: Choose | None = None


class SpoolLife:
    def __init__(self, root: Path, limits: Limits, policy: SyncPolicy) -> None:
        self.disk = ForgettingDisk(root)
        self.limits = limits
        self.policy = policy
        self.boot = 1
        self.taken = 0  # samples made so far, each with a value of its own
        self.tried: dict[int, set[float]] = {}
        self.newest: dict[int, float] = {}  # the value that was last tried for a sequence
        self.told: dict[int, float | None] = {}  # what was promised; None for a sequence that was named as lost
        self.promised = 0
        self.at_edge: set[int] = set()
        self.once_at_edge: set[int] = set()
        self.losses_at_edge: set[UUID] = set()
        self.given_up: dict[UUID, int] = {}
        self._reopen(())

    # What a node does. Each says whether it came to its end; if not, the spool is open again and was written to.

    def append(self, count: int, trouble: Trouble | None = None) -> bool:
        first_seq = self.spool._writer.next_seq
        assert first_seq > self.promised
        group = samples(count, self.taken + 1)
        self.taken += count
        for seq, sample in enumerate(group, first_seq):
            self.newest[seq] = sample[4]
            self.tried.setdefault(seq, set()).add(sample[4])
        return self._do(lambda: self.spool.append_many(group), trouble)

    def sync(self, trouble: Trouble | None = None) -> bool:
        return self._do(self.spool.sync, trouble)

    def acknowledge(self, share: float, *, is_gappy: bool, trouble: Trouble | None = None) -> bool:
        top = self.spool.synced_seq
        seq = int(top * share)
        received = [(seq + 3, seq + 9)] if is_gappy and seq + 9 <= top else []
        self._is_at_edge(_sequences([(1, seq), *received]))
        return self._do(lambda: self.spool.acknowledge(seq, received), trouble)

    def acknowledge_losses(self, trouble: Trouble | None = None) -> bool:
        losses = self.spool.losses.outstanding()
        self.losses_at_edge |= {loss.loss_id for loss in losses}
        self._is_at_edge(_of(losses))
        return self._do(lambda: self.spool.losses.acknowledge([loss.loss_id for loss in losses]), trouble)

    def go_back(self, share: float, trouble: Trouble | None = None) -> None:
        """The edge has an old database now, and says so until the node has heard it."""
        seq, epoch = int(self.spool.acked.seq * share), f"epoch-{self.taken}"
        while not self._do(lambda: self.spool.go_back(seq, epoch), trouble):
            trouble = None
        self.at_edge = set(range(1, seq + 1))

    def trim(self, trouble: Trouble | None = None) -> bool:
        return self._do(self.spool.trim, trouble)

    def give_up(self, loss_id: UUID, count: int, trouble: Trouble | None = None) -> None:
        """The producer says so until it is heard, under the same id."""
        while not self._do(lambda: self.spool.give_up(loss_id, count, WALL_US), trouble):
            trouble = None
        self.given_up[loss_id] = count

    def restart(self, *, is_clean: bool, is_new_boot: bool, troubles: Iterable[Trouble] = ()) -> None:
        if is_clean:
            with self.disk.in_use():
                self.spool.close()
            self._note()
        self.disk.end_process()
        self.boot += is_new_boot
        self._reopen(troubles)

    def cut_power(self, survives: Choose, troubles: Iterable[Trouble] = ()) -> None:
        self._forget(survives)
        self._reopen(troubles)

    def end(self) -> None:
        self.disk.end_process()

    # What must hold at any time

    def check(self) -> None:
        readable, losses = kept(self.spool, 500), self.spool.losses.all()
        accounted = readable.keys() | _of(losses) | self.at_edge
        assert set(range(1, self.spool.synced_seq + 1)) <= accounted
        assert set(range(1, self.spool.acked.seq + 1)) <= self.at_edge
        for seq, frame in readable.items():
            assert frame.value in self.tried[seq]
            assert self.told.get(seq) in (None, frame.value)
        self._check_given_up([loss for loss in losses if loss.cause == Cause.NOT_CAPTURED])
        if not self.disk.has_refused:
            self._check_nothing_lost_without_need(losses)
            assert self.spool.usage().spool_bytes <= self.limits.max_spool_bytes

    def _check_given_up(self, losses: list[Loss]) -> None:
        counts = [(loss.loss_id, loss.count) for loss in losses]
        assert len(counts) == len({loss_id for loss_id, _ in counts})
        assert self.given_up.items() <= dict(counts).items() | {
            (loss_id, self.given_up.get(loss_id, 0)) for loss_id in self.losses_at_edge
        }
        assert all(self.told.get(seq) is None for seq in _of(losses))

    def _check_nothing_lost_without_need(self, losses: list[Loss]) -> None:
        """A disk that keeps what it synced costs nothing that was promised, but by the cap."""
        needless = [loss for loss in losses if loss.cause not in (Cause.CAP_REACHED, Cause.NOT_CAPTURED)]
        assert [seq for seq in _of(needless) - self.once_at_edge if self.told.get(seq) is not None] == []

    # What befalls it

    def _do(self, operation: Callable[[], object], trouble: Trouble | None) -> bool:
        try:
            with self.disk.in_use(trouble.fault if trouble else None):
                operation()
        except Ended:
            self._end(trouble)
            self._reopen(())
        except (OSError, SyncFailed, SpoolFull):
            assert trouble is not None
            self._note()
            self._write_again()
        else:
            self._note()
            return True
        return False

    def _end(self, trouble: Trouble | None) -> None:
        if trouble is not None and trouble.survives is not None:
            self._forget(trouble.survives)
        else:
            self.disk.end_process()

    def _forget(self, survives: Choose) -> None:
        self.disk.cut_power(survives)
        self.boot += 1
        if self.policy is SyncPolicy.OS:
            # As documented: of what the last sync did not cover, nothing is promised beyond a power cut.
            self.promised = min(self.promised, self.spool.synced_seq)
            self.told = {seq: value for seq, value in self.told.items() if seq <= self.promised}

    def _reopen(self, troubles: Iterable[Trouble]) -> None:
        for trouble in (*troubles, None):
            try:
                with self.disk.in_use(trouble.fault if trouble else None):
                    self.spool = self._opened()
                break
            except Ended:
                self._end(trouble)
            except (OSError, SyncFailed, SpoolFull):
                assert trouble is not None
                self.disk.end_process()
        self._believe()
        self._write_again()

    def _opened(self) -> Spool:
        return open_spool(self.disk.root / "spool", self.limits, self.policy, UUID(int=self.boot))

    def _note(self) -> None:
        """What the spool now says may be told to the producer has been told."""
        gone, safe_seq = lost(self.spool), self.spool.safe_seq
        assert safe_seq >= self.promised
        for seq in range(self.promised + 1, safe_seq + 1):
            self.told[seq] = None if seq in gone else self.newest[seq]
        self.promised = safe_seq

    def _believe(self) -> None:
        """After a start, more may be there than was promised, and from now on counts."""
        readable, safe_seq = kept(self.spool, 500), self.spool.safe_seq
        assert safe_seq >= self.promised
        for seq in range(self.promised + 1, safe_seq + 1):
            self.told[seq] = readable[seq].value if seq in readable else None
        self.promised = safe_seq

    def _write_again(self) -> None:
        self.check()
        assert self.append(2)
        assert self.sync()
        assert [kept(self.spool, 500)[self.promised - i].value for i in (1, 0)] == [self.taken - 1, self.taken]
        self.check()

    def _is_at_edge(self, sequences: set[int]) -> None:
        self.at_edge |= sequences
        self.once_at_edge |= sequences


def _sequences(ranges: Iterable[tuple[int, int]]) -> set[int]:
    return {seq for first, last in ranges for seq in range(first, last + 1)}


def _of(losses: Iterable[Loss]) -> set[int]:
    return _sequences((loss.first_seq, loss.last_seq) for loss in losses)
