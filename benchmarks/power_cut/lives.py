"""One life of a store, written down call by call; and what is left of it after each of many cuts."""

import enum
import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from power_cut.contenders import Contender
from power_cut.disk import TracedDisk, paths_of
from power_cut.trace import Call, calls_in, data_of, strace
from power_cut.verdict import Verdict, judged
from power_cut.write import ACKNOWLEDGED, BEGUN, GIVEN

FURTHER_CALLS_MAX = 8


class LifeFailed(Exception):
    """A writer or a reader did not come to its end. The message has what it said."""


class Ending(enum.Enum):
    KILLED = "killed"  # the process dies and the kernel lives: all that was written is there
    NOTHING = "nothing"  # of what was not synced, nothing survives
    SOME = "some"  # of what was not synced, what the kernel had written back by itself

    def of(self, disk: TracedDisk, seed: int, calls: range) -> dict[Path, bytes | None]:
        """What is left of the disk. `calls` are the numbers of those from the beginning of the life to the cut."""
        if self is Ending.SOME:
            chance = random.Random(seed)  # noqa: S311 - a seed repeats a cut
            return disk.survivors(chance.randrange, written_back=chance.choice(calls))
        return disk.survivors((lambda _states: 0) if self is Ending.NOTHING else (lambda states: states - 1))


@dataclass(frozen=True, slots=True)
class Cut:
    """At a moment of the life, and then after so many more calls: most moments are those at which nothing is being written."""

    moment: float  # as a share of the life
    further_calls: int
    seed: int


def cuts_of(seed: int, count: int) -> list[Cut]:
    """Spread over the life, but not over its first tenth: each somewhere in a part of its own."""
    chance = random.Random(seed)  # noqa: S311 - a seed repeats a cut
    moments = [0.1 + 0.85 * (number + chance.random()) / count for number in range(count)]
    return [Cut(moment, chance.randrange(FURTHER_CALLS_MAX), chance.getrandbits(32)) for moment in moments]


@dataclass(frozen=True, slots=True)
class Pace:
    seconds: float
    polls_a_second: float


@dataclass
class Told:
    """What had been noted when the power went."""

    given: int = 0
    acknowledged: list[int] = field(default_factory=list)

    def note(self, line: str) -> None:
        what, number = line.split()
        if what == GIVEN:
            self.given = int(number) + 1
        elif what == ACKNOWLEDGED:
            self.acknowledged.append(int(number))


@dataclass(frozen=True, slots=True)
class Life:
    calls: list[Call]  # about the store's folder or the notes, in the order in which they returned
    disk: TracedDisk  # as it was when writing began
    notes: Path
    pace: Pace

    def at(self, cuts: Sequence[Cut]) -> Iterator[tuple[Cut, range, Told]]:
        """The numbers of the calls before each cut, and the notes; the disk is as it is then, and goes on changing."""
        told, done = Told(), 0
        for cut in cuts:
            until = self._until(cut)
            for call in self.calls[done:until]:
                if self.notes in paths_of(call):
                    told.note(data_of(call.arguments[1]).decode())
                else:
                    self.disk.apply(call)
            done = max(done, until)
            yield cut, range(self.calls[0].number, self.calls[max(0, done - 1)].number + 1), told

    def _until(self, cut: Cut) -> int:
        power_goes_at = self.calls[0].seconds + cut.moment * self.pace.seconds
        made = sum(call.seconds <= power_goes_at for call in self.calls)
        return min(len(self.calls), made + cut.further_calls)


def lived(contender: Contender, python: Path, folder: Path, pace: Pace) -> Life:
    root, notes, log = folder / "store", folder / "notes", folder / "calls"
    root.mkdir(parents=True)
    asked = [contender.entry.name, root, notes, "--seconds", pace.seconds, "--polls-a-second", pace.polls_a_second]
    _run([*strace(log), str(python), "-m", "power_cut.write", *map(str, asked)])
    disk = TracedDisk(root)
    with log.open(encoding="ascii") as lines:
        calls = calls_in(lines)
        for call in calls:
            if _notes(call, notes) == BEGUN:
                break
            if disk.holds(call):
                disk.apply(call)
        disk.settle()
        return Life([call for call in calls if disk.holds(call) or _notes(call, notes)], disk, notes, pace)


def _notes(call: Call, notes: Path) -> str | None:
    if call.name != "write" or notes not in paths_of(call):
        return None
    return data_of(call.arguments[1]).decode().strip()


def deaths(
    contender: Contender, python: Path, life: Life, folder: Path, cuts: Sequence[Cut]
) -> dict[Ending, list[Verdict]]:
    """Every cut in each of the ways in which it can end."""
    left: list[tuple[Ending, Path, int, list[int]]] = []
    for number, (cut, calls, told) in enumerate(life.at(cuts)):
        for ending in Ending:
            place = folder / f"{number}-{ending.value}"
            rebuild(place, ending.of(life.disk, cut.seed, calls))
            left.append((ending, place, told.given, list(told.acknowledged)))
    printed = _run([str(python), "-m", "power_cut.read", contender.entry.name, *(str(place) for _e, place, *_ in left)])
    verdicts: dict[Ending, list[Verdict]] = {ending: [] for ending in Ending}
    for (ending, _place, given, acknowledged), line in zip(left, printed.splitlines(), strict=True):
        found = json.loads(line)
        found["readings"] = [tuple(reading) for reading in found["readings"]]
        verdicts[ending].append(judged(given, acknowledged, found))
    for _ending, place, *_ in left:
        shutil.rmtree(place)
    return verdicts


def rebuild(folder: Path, survivors: dict[Path, bytes | None]) -> None:
    folder.mkdir()
    for path, content in survivors.items():
        if content is None:
            (folder / path).mkdir()
            continue
        with (folder / path).open("wb") as file:
            file.write(content.rstrip(b"\0"))  # reserved space stays a hole
            file.truncate(len(content))


def _run(command: list[str]) -> str:
    done = subprocess.run(
        command,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(Path(__file__).parents[1]), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise LifeFailed(f"{' '.join(command[:12])}\n{done.stderr[-2000:]}")
    return done.stdout


def python_of(contender: Contender, peers_python: Path | None) -> Path:
    return peers_python if contender.entry.is_peer and peers_python else Path(sys.executable)
