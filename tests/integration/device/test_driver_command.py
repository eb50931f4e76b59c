"""Programs of somebody else's, as real child processes."""

import os
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from farmiq.device.node_agent.drivers import Driver, Fault, Pace, Reading
from farmiq.device.node_agent.drivers.command import OUTPUT_BYTES_MAX, PLUGIN, CommandChannel, CommandDevice
from farmiq.device.node_agent.drivers.program_lines import LINE_BYTES_MAX
from farmiq.kit.clock import Clock
from support.waiting import eventually

Open = Callable[..., Driver]


@pytest.fixture
async def open_driver() -> AsyncIterator[Open]:
    """Call it with the text of a Python program. What was opened is closed after the test."""
    opened: list[Driver] = []

    def start(program: str, *names: str, timeout_seconds: float = 20.0, **keys: object) -> Driver:
        device = CommandDevice(
            driver="command",
            command=(sys.executable, "-c", program),
            channel=tuple(CommandChannel(metric="m", unit="", sensor=name) for name in names or ("t1",)),
            **keys,  # type: ignore[arg-type]  # `mode` and `stale_ms`
        )
        opened.append(PLUGIN.open(device, Pace(1.0, timeout_seconds), Clock()))
        return opened[-1]

    yield start
    for driver in opened:
        await driver.close()


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except (ProcessLookupError, FileNotFoundError):
        return False


async def eventually_gone(pid: int) -> None:
    async def gone() -> bool:
        return not is_alive(pid)

    await eventually(gone, what=f"the end of process {pid}")


@pytest.mark.parametrize(
    ("said", "names", "expected"),
    [
        ("21.5", ["t1"], [21.5]),
        (" -3 \\n", ["t1"], [-3.0]),
        ('{\\"t1\\": 1, \\"t2\\": 2.5, \\"more\\": [1]}', ["t2", "t1"], [2.5, 1.0]),
    ],
)
async def test_a_number_or_an_object_is_read(
    open_driver: Open, said: str, names: list[str], expected: list[Reading]
) -> None:
    driver = open_driver(f'print("{said}")', *names)
    assert await driver.read() == expected
    assert await driver.read() == expected


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("print('warm')", "said 'warm\\n', neither a number nor a JSON object"),
        ("print('NaN')", "neither a number"),
        ("print('[1]')", "neither a number"),
        ("print('')", "neither a number"),
        ("print('{\"t2\": 1}')", "said nothing of 't1'"),
        ('print(\'{"t1": "1"}\')', "which is not a number"),
        ("print('{\"t1\": null}')", "which is not a number"),
        ("print(1); raise SystemExit(3)", "ended with 3"),
        ("import os; os.kill(os.getpid(), 9)", "ended with -9"),
        ("while True: print('x' * 1000)", f"said more than {OUTPUT_BYTES_MAX} bytes"),
    ],
)
async def test_whatever_else_a_program_does_is_a_fault_that_says_so(open_driver: Open, program: str, said: str) -> None:
    (reading,) = await open_driver(program).read()
    assert isinstance(reading, Fault)
    assert said in reading.reason


async def test_one_number_is_not_enough_for_two_channels(open_driver: Open) -> None:
    assert (
        await open_driver("print(1)", "t1", "t2").read()
        == [Fault("said one number for 2 channels: a JSON object is needed")] * 2
    )


async def test_a_program_that_is_not_there_is_a_fault() -> None:
    channel = CommandChannel(metric="m", unit="", sensor="t1")
    device = CommandDevice(driver="command", command=("no-such-program",), channel=(channel,))
    driver = PLUGIN.open(device, Pace(1.0, 0.7), Clock())
    assert await driver.read() == [Fault("no-such-program cannot be started: No such file or directory")]


async def test_a_program_that_hangs_is_killed_with_everything_it_started(open_driver: Open, tmp_path: Path) -> None:
    program = f"""
import os, pathlib, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
pathlib.Path({str(tmp_path / "pids.tmp")!r}).write_text(f"{{os.getpid()}} {{child.pid}}")
os.rename({str(tmp_path / "pids.tmp")!r}, {str(tmp_path / "pids")!r})
time.sleep(600)
"""
    (reading,) = await open_driver(program, timeout_seconds=2.0).read()
    assert isinstance(reading, Fault)
    assert "did not end within 2 s and was killed" in reading.reason
    for pid in (tmp_path / "pids").read_text().split():
        await eventually_gone(int(pid))


async def test_no_secret_of_ours_is_in_a_programs_environment(
    open_driver: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MQTT_URL", "mqtt://node-1:secret@localhost")
    assert await open_driver("import os; print(int('MQTT_URL' in os.environ))").read() == [0.0]


async def test_what_a_program_gets_is_no_shell_text(open_driver: Open) -> None:
    driver = open_driver("import sys; print(1 if sys.argv[0] == '-c' else 0)  # ; rm -rf $HOME `false`")
    assert await driver.read() == [1.0]


# --- Kept running --------------------------------------------------------------------------------------------------------------

FOREVER = "import sys, time\nsay = lambda text: print(text, flush=True)\n"


class Newest:
    """The last reading of each channel that was not "nothing new"."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.readings: list[Reading] = []

    async def read(self) -> list[Reading]:
        fresh = list(await self._driver.read())
        before = self.readings or [None] * len(fresh)
        self.readings = [old if new is None else new for old, new in zip(before, fresh, strict=True)]
        return self.readings


async def test_lines_are_read_as_they_come_and_each_value_is_a_sample_once(open_driver: Open) -> None:
    program = FOREVER + "say('hello there')\nsay('t1 1.5')\nsay('t1 2.5')\nsay('t2 cold')\ntime.sleep(600)"
    driver = open_driver(program, "t1", "t2", "t3", mode="lines", stale_ms=60_000)
    seen = Newest(driver)

    async def said() -> bool:
        readings = await seen.read()
        return readings[0] == 2.5 and isinstance(readings[1], Fault)

    await eventually(said, what="the values that were said last")
    assert seen.readings[2] is None
    assert "said 'cold' of 't2', which is not a number" in str(seen.readings[1])
    assert await driver.read() == [None, None, None]


async def test_a_program_that_ends_is_started_again(open_driver: Open, tmp_path: Path) -> None:
    program = f"""
import pathlib
starts = pathlib.Path({str(tmp_path / "starts")!r})
count = len(starts.read_text()) + 1 if starts.exists() else 1
starts.write_text("x" * count)
print("t1", count)
"""
    seen = Newest(open_driver(program, mode="lines", stale_ms=60_000))

    async def started_thrice() -> bool:
        reading = (await seen.read())[0]
        return isinstance(reading, float) and reading >= 3

    await eventually(started_thrice, what="the third start")

    async def ended() -> bool:
        return "closed its output" in str((await seen.read())[0])

    await eventually(ended, what="the fault between two starts")
    assert isinstance(seen.readings[0], Fault)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("time.sleep(600)", "has said nothing for 0.2 s and was killed"),
        ("while True: say('x' * 100_000)", f"said a line of more than {LINE_BYTES_MAX} bytes and was killed"),
        ("while True: print('t9 1')", "bytes a second and was killed"),
    ],
    ids=["silent", "endless line", "flood"],
)
async def test_a_program_that_hangs_or_goes_mad_is_killed_and_its_channels_are_faulty(
    open_driver: Open, tmp_path: Path, program: str, said: str
) -> None:
    pids = tmp_path / "pids"
    noted = f"import os\nprint(os.getpid(), file=open({str(pids)!r}, 'a'), flush=True)\n"
    stale_ms = 200 if said.startswith("has") else 60_000
    driver = open_driver(FOREVER + noted + program, mode="lines", stale_ms=stale_ms)
    await driver.read()

    async def was_started() -> bool:
        return pids.exists() and "\n" in pids.read_text()

    # Not read before it is gone: with every read a turn begins, and with it a new measure of what is too much.
    await eventually(was_started, what="the program")
    await eventually_gone(int(pids.read_text().split()[0]))

    async def faulty() -> bool:
        return said in str((await driver.read())[0])

    await eventually(faulty, what=f"to be told {said!r}")
    assert [type(reading) for reading in await driver.read()] == [Fault]


async def test_a_name_that_falls_silent_is_faulty_while_the_others_go_on(open_driver: Open) -> None:
    program = FOREVER + "say('t2 5')\nwhile True:\n    say('t1 1')\n    time.sleep(0.02)"
    seen = Newest(open_driver(program, "t1", "t2", mode="lines", stale_ms=500))

    async def silent() -> bool:
        readings = await seen.read()
        return readings[0] == 1.0 and "has said nothing of 't2'" in str(readings[1])

    await eventually(silent, what="the fault of the silent one")
    assert seen.readings[0] == 1.0


async def test_closing_ends_the_program(open_driver: Open) -> None:
    driver = open_driver(
        FOREVER + "import os\nsay(f't1 {os.getpid()}')\ntime.sleep(600)", mode="lines", stale_ms=60_000
    )
    seen = Newest(driver)

    async def started() -> bool:
        return isinstance((await seen.read())[0], float)

    await eventually(started, what="the program's first line")
    pid = seen.readings[0]
    assert isinstance(pid, float)
    assert is_alive(int(pid))
    await driver.close()
    await eventually_gone(int(pid))
