"""Each system call on which durability hangs, from each place that makes it, is refused, or is the last thing attempted.

The writer is a real process, and `strace` stands between it and the kernel. An injected error means that the call was not
made; an injected SIGKILL that the process died on entering it, which is also after the call before it. A write cannot be
made short like that: a changed return value means that nothing was written, and that would be a disk that lies. So the
writer hands the kernel less than the whole, and what is there afterwards is really part of a frame.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import farmiq.spool
from farmiq.spool import Spool
from faults.spool.live_and_tell import CALLS, TURNS, opened
from unit.spool.spool_world import kept, lost, samples

TESTS = Path(__file__).parents[2]
SOURCE = Path(farmiq.spool.__file__).parents[2]
# The spool needs only the standard library, and without `site` Python starts in half the time.
WRITER = [sys.executable, "-S", str(Path(__file__).with_name("live_and_tell.py"))]
ENVIRON = {**os.environ, "PYTHONPATH": f"{SOURCE}{os.pathsep}{TESTS}", "PYTHONDONTWRITEBYTECODE": "1"}
STRACE = ["strace", "-f", "--seccomp-bpf", "--quiet=all", "-o", os.devnull]
KERNEL_CALLS = sorted(set(CALLS.values()))
MADE_FILES = ["lock", "stream.tmp", "losses", "synced", "acked", f"{1:020d}.open", f"{95:020d}.open"]
AT_ONCE = 2

Sites = dict[str, dict[str, list[int]]]  # system call: place in the code: at which of these calls it is made


@dataclass
class Told:
    """What a writer promised before its end."""

    kept: dict[int, float] = field(default_factory=dict)
    given_up: dict[int, int] = field(default_factory=dict)
    at_edge_seq: int = 0
    refused: list[int] = field(default_factory=list)
    is_killed: bool = False

    @property
    def turns(self) -> set[int]:
        """Those that were kept, and those that were refused and said so."""
        return {int(value) // 100 for value in self.kept.values()} | set(self.refused)

    @classmethod
    def by(cls, command: list[str]) -> "Told":
        ended = subprocess.run(command, capture_output=True, env=ENVIRON, check=False, text=True)
        assert ended.returncode in (0, -9), ended.stderr
        told = cls(is_killed=ended.returncode == -9)
        for line in ended.stdout.rpartition("\n")[0].splitlines():
            what, *words = line.split()
            getattr(told, f"_{what}")(*map(int, words))
        return told

    def _kept(self, first_seq: int, last_seq: int, value: int) -> None:
        self.kept |= {seq: float(value + seq - first_seq) for seq in range(first_seq, last_seq + 1)}

    def _given_up(self, loss_id: int, count: int) -> None:
        self.given_up[loss_id] = count

    def _at_edge(self, seq: int) -> None:
        self.at_edge_seq = seq

    _back = _at_edge

    def _refused(self, turn: int) -> None:
        self.refused.append(turn)


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Sites:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    tried = subprocess.run([*STRACE, "true"], capture_output=True, check=False, text=True)
    if tried.returncode:
        pytest.skip(f"strace may not trace here: {tried.stderr.strip()}")
    command = [*WRITER, str(tmp_path_factory.mktemp("sites") / "spool"), "sites"]
    noted = json.loads(subprocess.run(command, capture_output=True, env=ENVIRON, check=True).stdout)
    found: Sites = {}
    for call in KERNEL_CALLS:
        places: dict[str, list[int]] = {}
        for number, place in enumerate((place for name, place in noted if name == call), 1):
            places.setdefault(place, []).append(number)
        found[call] = places
    return found


def chosen(places: dict[str, list[int]], *which: int) -> list[int]:
    """Every place is met, the first time or the last time that it makes the call."""
    return sorted({numbers[index] for numbers in places.values() for index in which})


def lives(folder: Path, commands: dict[str, list[str]]) -> Iterator[tuple[str, Told]]:
    """Each command in a spool of its own. Checked when all have ended: a process that is just being started holds a copy
    of every lock that is held here."""
    whole = [[word.format(folder=folder / name) for word in command] for name, command in commands.items()]
    with ThreadPoolExecutor(AT_ONCE) as threads:
        told_by_all = list(threads.map(Told.by, whole))
    for name, told in zip(commands, told_by_all, strict=True):
        assert_accounted_for(folder / name, told, name)
        yield name, told


def assert_accounted_for(folder: Path, told: Told, name: str) -> None:
    spool = opened(folder)
    readable, gone = kept(spool, 500), lost(spool)
    for seq, value in told.kept.items():
        assert seq <= told.at_edge_seq or seq in gone or (seq in readable and readable[seq].value == value), (name, seq)
    given_up = {loss.loss_id.int: loss.count for loss in spool.losses.all() if loss.cause == "not_captured"}
    assert told.given_up.items() <= given_up.items(), name
    assert_written_again(folder, spool, max([0, *told.kept, *readable, *gone]))


def assert_written_again(folder: Path, spool: Spool, used_seq: int) -> None:
    span = spool.append_many(samples(3, 5000))
    spool.sync()
    assert span is not None
    assert span[0] > used_seq
    for reopened in (spool, None):
        spool = reopened or opened(folder)
        assert [kept(spool, 500)[seq].value for seq in range(span[0], span[1] + 1)] == [5000.0, 5001.0, 5002.0]
        spool.release()


def injected(*words: str) -> list[str]:
    return [*STRACE, *words, *WRITER, "{folder}"]


@pytest.mark.parametrize(("error", "which"), [("EIO", 0), ("ENOSPC", -1)])
@pytest.mark.parametrize("call", KERNEL_CALLS)
def test_a_system_call_refused_once_costs_nothing_acknowledged_and_the_writer_goes_on(
    tmp_path: Path, sites: Sites, call: str, error: str, which: int
) -> None:
    numbers = chosen(sites[call], which)
    assert numbers
    commands = {str(number): injected(f"--inject={call}:error={error}:when={number}") for number in numbers}
    for _, told in lives(tmp_path, commands):
        assert len(told.refused) <= 1
        assert told.turns == set(range(TURNS))


@pytest.mark.parametrize("call", KERNEL_CALLS)
def test_a_process_killed_at_a_system_call_loses_nothing_that_it_acknowledged(
    tmp_path: Path, sites: Sites, call: str
) -> None:
    numbers = chosen(sites[call], 0, -1)
    commands = {str(number): injected(f"--inject={call}:signal=SIGKILL:when={number}") for number in numbers}
    ends = [(told.is_killed, len(told.kept)) for _, told in lives(tmp_path, commands)]
    assert [is_killed for is_killed, _ in ends] == [True] * len(numbers)
    assert ends == sorted(ends)


@pytest.mark.parametrize("how", ["error=EIO", "error=ENOSPC", "signal=SIGKILL"])
def test_a_file_that_cannot_be_made_costs_nothing_acknowledged(tmp_path: Path, sites: Sites, how: str) -> None:
    commands = {name: injected("-P", f"{{folder}}/{name}", f"--inject=openat:{how}:when=1") for name in MADE_FILES}
    for _, told in lives(tmp_path, commands):
        assert told.is_killed == (how == "signal=SIGKILL")
        assert told.is_killed or told.turns == set(range(TURNS))


@pytest.mark.parametrize("mode", ["short", "torn"])
def test_a_write_of_less_than_the_whole_costs_nothing_acknowledged(tmp_path: Path, sites: Sites, mode: str) -> None:
    commands = {str(number): [*WRITER, "{folder}", mode, str(number)] for number in chosen(sites["pwrite64"], 0, -1)}
    for _, told in lives(tmp_path, commands):
        assert told.is_killed == (mode == "torn")
        assert told.refused == []
        assert told.is_killed or len(told.kept) == TURNS * 30
