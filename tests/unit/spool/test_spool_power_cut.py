"""Everything that a spool does is met by a fault: at its first call of the disk, then at its second, until all were met."""

import itertools
import random
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

import pytest

from farmiq.spool import SyncPolicy
from support.forgetting_disk import Choose, Fault, Kind, all_it_can, nothing
from unit.spool.spool_life import SpoolLife, Trouble
from unit.spool.spool_world import small

Step = Callable[[SpoolLife, Trouble], None]


def some_of(seed: int) -> Choose:
    rng = random.Random(seed)
    return rng.randrange


def rotate_at_the_cap(life: SpoolLife, trouble: Trouble) -> None:
    life.append(300)
    life.append(100, trouble)


def sync(life: SpoolLife, trouble: Trouble) -> None:
    life.append(3)
    life.sync(trouble)


def lose_at_the_producer(life: SpoolLife, trouble: Trouble) -> None:
    life.append(3)
    life.give_up(UUID(int=life.taken), 20, trouble)


def delete_what_is_acknowledged(life: SpoolLife, trouble: Trouble) -> None:
    life.append(100)
    life.sync()
    life.acknowledge(0.95, is_gappy=False)
    life.trim(trouble)


def tell_the_edge_of_losses(life: SpoolLife, trouble: Trouble) -> None:
    life.give_up(UUID(int=life.taken), 5)
    life.acknowledge_losses(trouble)


def restore_the_edge(life: SpoolLife, trouble: Trouble) -> None:
    life.append(200)
    life.sync()
    life.acknowledge(1.0, is_gappy=False)
    life.trim()
    life.go_back(0.2, trouble)


def start_after_a_kill(life: SpoolLife, trouble: Trouble) -> None:
    life.append(7)
    life.restart(is_clean=False, is_new_boot=False, troubles=[trouble])


def start_after_a_power_cut(life: SpoolLife, trouble: Trouble) -> None:
    life.append(50)
    life.cut_power(some_of(life.taken), [trouble])


STEPS = [
    rotate_at_the_cap,
    sync,
    lose_at_the_producer,
    delete_what_is_acknowledged,
    tell_the_edge_of_losses,
    restore_the_edge,
    start_after_a_kill,
    start_after_a_power_cut,
]

CALLS = {"open", "pwrite", "posix_fallocate", "ftruncate", "fdatasync", "fsync", "rename", "unlink", "mkdir"}

FAULTS: dict[str, tuple[Kind, int, Choose | None]] = {
    "a kill": (Kind.ENDS_BEFORE, 1, None),
    "a kill in the middle of a write": (Kind.ENDS_IN_WRITE, 1, None),
    "a power cut that takes all it can": (Kind.ENDS_BEFORE, 1, all_it_can),
    "a power cut that takes nothing": (Kind.ENDS_BEFORE, 1, nothing),
    "a power cut that takes some": (Kind.ENDS_BEFORE, 1, some_of(1)),
    "a power cut in the middle of a write": (Kind.ENDS_IN_WRITE, 1, some_of(2)),
    "one error": (Kind.IO_ERROR, 1, None),
    "errors for a while": (Kind.IO_ERROR, 5, None),
    "no space": (Kind.NO_SPACE, 1, None),
    "no space for a while": (Kind.NO_SPACE, 5, None),
    "a short write": (Kind.SHORT_WRITE, 1, None),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("policy", [SyncPolicy.GROUP, SyncPolicy.OS])
def test_a_fault_at_any_call_of_the_disk_costs_nothing_that_was_promised(
    tmp_path: Path, policy: SyncPolicy, name: str
) -> None:
    met = {step.__name__: calls_met(tmp_path / step.__name__, policy, step, *FAULTS[name]) for step in STEPS}
    assert all(met.values())
    assert set(itertools.chain(*met.values())) == CALLS


def calls_met(root: Path, policy: SyncPolicy, step: Step, kind: Kind, calls: int, survives: Choose | None) -> list[str]:
    """The step in a new spool each time, with the fault one call later, until the fault finds no call any more."""
    met: list[str] = []
    for at_call in itertools.count(1):
        (root / str(at_call)).mkdir(parents=True)
        limits = small(grow_bytes=2048, max_spool_bytes=4 * 4096, keep_acked_bytes=0)
        life = SpoolLife(root / str(at_call), limits, policy)
        step(life, Trouble(Fault(kind, at_call, calls), survives))
        life.check()
        life.cut_power(all_it_can)
        life.end()
        if not life.disk.met:
            break
        met += life.disk.met
    return met
