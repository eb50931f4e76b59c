"""`farmiq spool` in a process of its own, over real spools: sound, hurt, and being written."""

import csv
import io
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from farmiq.cli import exits
from farmiq.spool import Spool
from farmiq.stack.demo_farm import DEVICE_ID
from farmiq.stack.home import Home
from unit.spool.spool_world import BOOT, CHANNELS, open_spool, samples, segment_files, small

FARMIQ = Path(sys.executable).parent / "farmiq"


def farmiq(*arguments: str | Path, home: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FARMIQ, "spool", *map(str, arguments)],
        env=os.environ | {"FARMIQ_HOME": str(home or Path(os.devnull).parent / "none")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """1-89 dropped by the cap; closed 90-178, 179-267, 268-356, 357-445; open 446-500; acknowledged up to 200."""
    folder = tmp_path / "spool"
    spool = open_spool(folder, small(max_spool_bytes=5 * 4096))
    spool.append_many(samples(500))
    spool.sync()
    spool.go_back(0, "epoch-1")
    spool.acknowledge(200)
    spool.close()
    return folder


def seqs(told: subprocess.CompletedProcess[str]) -> list[int]:
    assert told.returncode == exits.OK, told.stderr
    return [json.loads(line)["seq"] for line in told.stdout.splitlines()]


def spoil(folder: Path, index: int, *numbers: int) -> str:
    path = folder / segment_files(folder)[index]
    data = bytearray(path.read_bytes())
    for seq in numbers:
        data[512 + (seq - int(path.name[:20])) * 40 + 20] ^= 1
    path.write_bytes(data)
    return path.name


def test_ls_shows_segments_marks_and_losses(folder: Path) -> None:
    told = farmiq("ls", folder)
    assert told.returncode == exits.OK
    lines = [line.split() for line in told.stdout.splitlines()]
    assert ["acked", "up", "to", "200,", "by", "the", "edge", "database", "epoch-1"] in lines
    assert ["backlog", "300", "samples"] in lines
    assert [line[:2] + line[-5:-2] for line in lines if line and line[0] in ("closed", "open")] == [
        ["closed", "all", "90", "178", "89"],
        ["closed", "part", "179", "267", "89"],
        ["closed", "none", "268", "356", "89"],
        ["closed", "none", "357", "445", "89"],
        ["open", "none", "446", "500", "55"],
    ]
    assert any(line[:3] == ["cap_reached", "not", "yet"] and line[-3:] == ["1", "89", "89"] for line in lines if line)


def test_ls_as_json_has_all_of_it(folder: Path) -> None:
    told: dict[str, Any] = json.loads(farmiq("ls", folder, "--json").stdout)
    assert (told["synced_seq"], told["acked"], told["unacked_samples"]) == (500, {"seq": 200, "epoch": "epoch-1"}, 300)
    assert (told["writer_pid"], told["gaps"], told["quarantined"]) == (None, [], [])
    assert [(one["first_seq"], one["last_seq"], one["is_open"]) for one in told["segments"]][-1] == (446, 500, True)
    assert told["segments"][0]["boot_id"] == str(BOOT)
    assert told["segments"][0]["channels"] == [channel._asdict() for channel in CHANNELS]
    assert told["segments"][0]["first_time"] == "2025-01-01T10:00:00.090000Z"
    assert [(loss["first_seq"], loss["count"], loss["cause"]) for loss in told["losses"]] == [(1, 89, "cap_reached")]


def test_cat_prints_one_line_a_sample_within_what_is_asked_for(folder: Path) -> None:
    first, *_, last = farmiq("cat", folder).stdout.splitlines()
    assert first.split() == ["90", "2025-01-01T10:00:00.090000Z", "temperature", "t1", "90.0", "C"]
    assert last.split()[0] == "500"
    assert seqs(farmiq("cat", folder, "--json", "--from", "176", "--to", "181")) == [176, 177, 178, 179, 180, 181]
    odd = farmiq("cat", folder, "--json", "--metric", "humidity", "--sensor", "h1", "--from", "100", "--limit", "3")
    assert seqs(odd) == [101, 103, 105]
    assert farmiq("cat", folder, "--limit", "0").stdout == ""


def test_what_cannot_be_read_is_left_out_and_told_on_stderr(folder: Path) -> None:
    spoil(folder, 0, 100, 101)
    told = farmiq("cat", folder, "--json")
    assert set(seqs(told)) == set(range(90, 501)) - {100, 101}
    assert "2 samples could not be read, the first of them 100" in told.stderr


def test_verify_of_a_sound_spool_ends_with_0(folder: Path) -> None:
    told = farmiq("verify", folder)
    assert told.returncode == exits.OK
    assert "411 samples in 5 segments were read." in told.stdout
    assert told.stderr == ""
    assert json.loads(farmiq("verify", folder, "--json").stdout)["is_sound"] is True


def test_verify_names_damage_that_the_edge_need_not_mind_and_a_torn_tail_and_ends_with_0(folder: Path) -> None:
    acked = spoil(folder, 0, 100)
    with (folder / segment_files(folder)[-1]).open("r+b") as file:
        file.seek(512 + 55 * 40)
        file.write(b"\xff" * 9)
    told = farmiq("verify", folder)
    assert told.returncode == exits.OK
    found = [line.split() for line in told.stdout.splitlines() if line.startswith(("!", "✗", "·"))]
    assert found == [["!", "damaged", "100", acked], ["·", "torn_tail", "501", segment_files(folder)[-1]]]


def test_verify_fails_for_what_was_promised_and_is_not_declared_until_its_owner_declares_it(folder: Path) -> None:
    name = spoil(folder, 2, 300, 301, 302)
    (folder / segment_files(folder)[3]).unlink()
    told = farmiq("verify", folder, "--json")
    assert told.returncode == exits.FAILED
    found = json.loads(told.stdout)
    assert (found["is_sound"], found["undeclared_samples"]) == (False, 3 + 89)
    assert [(one["kind"], one["segment"], one["first_seq"], one["last_seq"]) for one in found["findings"]] == [
        ("damaged", name, 300, 302),
        ("missing", None, 357, 445),
    ]
    assert {one["standing"] for one in found["findings"]} == {"undeclared"}
    assert "start node-forwarder" in told.stderr
    spool = open_spool(folder)
    list(spool.reader().frames())
    spool.close()
    assert farmiq("verify", folder).returncode == exits.OK  # its owner has declared them


def test_export_gives_csv_with_a_header_and_json_lines_to_a_file_or_to_a_pipe(folder: Path, tmp_path: Path) -> None:
    told = farmiq("export", folder, "--from", "95", "--to", "97")
    rows = list(csv.DictReader(io.StringIO(told.stdout)))
    assert [(row["seq"], row["metric"], row["value"], row["unit"]) for row in rows] == [
        ("95", "humidity", "95.0", "%"),
        ("96", "temperature", "96.0", "C"),
        ("97", "humidity", "97.0", "%"),
    ]
    assert UUID(rows[0]["stream_id"])
    assert rows[0]["boot_id"] == str(BOOT)
    file = tmp_path / "samples.jsonl"
    told = farmiq("export", folder, "--format", "jsonl", "-o", file)
    assert told.stdout == f"411 samples in {file}\n"
    exported = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["value"] for row in exported] == [float(seq) for seq in range(90, 501)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["samples.jsonl", "spool"]


def test_an_export_never_writes_into_the_spool_and_leaves_nothing_half(folder: Path, tmp_path: Path) -> None:
    before = (folder / "losses").read_bytes()
    assert farmiq("export", folder, "-o", folder / "losses").returncode == exits.USAGE
    assert (folder / "losses").read_bytes() == before
    told = farmiq("export", folder, "-o", tmp_path / "nowhere" / "a.csv")
    assert told.returncode == exits.FAILED
    assert "can't be written: No such file or directory" in told.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["spool"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--from", "9", "--to", "8"], "nothing from 9 to 8"),
        (["--metric", "humidty"], "There are: humidity of h1, temperature of t1."),
        (["--metric", "humidity", "--sensor", "t1"], "humidity of t1"),
        (["--from", "0"], "--from"),
    ],
)
def test_what_can_only_give_nothing_is_refused_with_the_reason(folder: Path, arguments: list[str], why: str) -> None:
    told = farmiq("cat", folder, *arguments)
    assert (told.returncode, told.stdout) == (exits.USAGE, "")
    assert why in told.stderr


@pytest.mark.parametrize("command", ["ls", "cat", "verify", "export"])
def test_a_folder_that_is_no_spool_is_refused_by_name(tmp_path: Path, command: str) -> None:
    told = farmiq(command, tmp_path)
    assert told.returncode == exits.USAGE
    assert told.stderr.startswith(f"error: there is no spool in {tmp_path}\n")
    assert "NODE_FORWARDER_SPOOL_DIR" in told.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_a_folder_it_is_the_spool_of_the_farm_on_this_machine(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    told = farmiq("ls", home=home.path)
    assert told.returncode == exits.NOT_RUNNING
    assert told.stderr.splitlines()[-1].endswith("farmiq up")
    assert not home.path.exists()
    spool = open_spool(home.spool_folder(DEVICE_ID))
    spool.append_many(samples(3))
    spool.close()
    assert seqs(farmiq("cat", "--json", home=home.path)) == [1, 2, 3]


@pytest.mark.parametrize("arguments", [["cat"], ["cat", "--limit", "5"], ["export"], ["cat", "--json"]])
def test_a_reader_who_has_seen_enough_ends_it_quietly(tmp_path: Path, arguments: list[str]) -> None:
    spool = open_spool(tmp_path, small(segment_bytes=1 << 20, max_spool_bytes=1 << 24))
    spool.append_many(samples(20_000))
    spool.close()
    ours, theirs = os.pipe()
    os.close(ours)
    told = subprocess.run(
        [FARMIQ, "spool", *arguments, tmp_path],
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )
    os.close(theirs)
    assert told.stderr == ""
    assert told.returncode == exits.FAILED


@pytest.fixture
def written(tmp_path: Path) -> Iterator[Spool]:
    """A spool that this process writes, rotates, acknowledges and trims all the time."""
    spool = open_spool(tmp_path / "spool", small(keep_acked_bytes=40 * 4096))
    is_over, has_begun = threading.Event(), threading.Event()

    def write() -> None:
        while not is_over.is_set():
            spool.append_many(samples(40, spool.synced_seq + 1))
            seq = spool.sync()
            if seq % 400 == 0:
                spool.acknowledge(seq - 300)
                spool.trim()
            if seq > 1000:
                has_begun.set()
            is_over.wait(0.001)

    thread = threading.Thread(target=write)
    thread.start()
    assert has_begun.wait(60)
    yield spool
    is_over.set()
    thread.join(30)


def test_a_spool_can_be_looked_at_while_it_is_written(written: Spool) -> None:
    told = json.loads(farmiq("ls", written.folder, "--json").stdout)
    assert (told["writer_pid"], told["gaps"]) == (os.getpid(), [])
    verified = farmiq("verify", written.folder)
    assert verified.returncode == exits.OK, verified.stdout + verified.stderr
    printed = farmiq("cat", written.folder, "--json")
    shown = seqs(printed)
    assert shown == sorted(set(shown))
    assert shown[-1] >= told["synced_seq"]
    # What its owner deleted in the middle of this is not there to be printed, and is not passed over in silence.
    assert shown[-1] - shown[0] + 1 == len(shown) or "could not be read" in printed.stderr
    assert written.losses.all() == []


def test_the_first_byte_does_not_wait_for_rich(folder: Path) -> None:
    script = (
        "import sys\n"
        f"sys.argv = ['farmiq', 'spool', 'verify', {str(folder)!r}]\n"
        "class Out:\n"
        "    def write(self, text): sys.exit('rich' in sys.modules or 'farmiq.spool.inspection' in sys.modules)\n"
        "    def flush(self): pass\n"
        "    def isatty(self): return False\n"
        "sys.stdout = Out()\n"
        "from farmiq.cli.__main__ import main\n"
        "main()\n"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
