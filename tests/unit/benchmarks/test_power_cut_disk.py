"""What a simulated power cut leaves of a folder, told from the log of a process's system calls."""

from pathlib import Path

import pytest

from power_cut.disk import NotJudged, TracedDisk
from power_cut.trace import LogNotUnderstood, calls_in, data_of

ROOT = Path("/store")


def hexed(text: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in text.encode())


class Log:
    """Lines as strace writes them. One letter a file: a descriptor is its number in the alphabet."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, body: str, thread: int = 7) -> "Log":
        self.lines.append(f"{thread} {100 + len(self.lines)}.000000 {body}")
        return self

    def call(self, name: str, *arguments: str, result: str = "0") -> "Log":
        return self.add(f"{name}({', '.join(arguments)}) = {result} <0.000010>")

    def opened(self, name: str, fd: int, flags: str = "O_RDWR|O_CREAT") -> "Log":
        path = f'"{hexed(str(ROOT / name))}"'
        return self.call("openat", f"AT_FDCWD<{hexed('/')}>", path, flags, "0644", result=f"{fd}<{hexed('x')}>")

    def wrote(self, name: str, fd: int, text: str) -> "Log":
        return self.call("write", at(name, fd), f'"{hexed(text)}"', str(len(text)), result=str(len(text)))

    def disk(self) -> TracedDisk:
        disk = TracedDisk(ROOT)
        for call in calls_in(self.lines):
            if disk.holds(call):
                disk.apply(call)
        return disk


def at(name: str, fd: int) -> str:
    return f"{fd}<{hexed(str(ROOT / name))}>"


def named(name: str) -> str:
    return f'"{hexed(str(ROOT / name))}"'


def oldest(_states: int) -> int:
    return 0


def newest(states: int) -> int:
    return states - 1


def left(log: Log) -> dict[str, bytes | None]:
    return {str(path): content for path, content in log.disk().survivors(oldest).items()}


def written(log: Log) -> dict[str, bytes | None]:
    return {str(path): content for path, content in log.disk().survivors(newest).items()}


def test_what_was_written_after_the_last_sync_is_lost() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "one").call("fdatasync", at("a", 3)).wrote("a", 3, "two")
    assert left(log) == {"a": b"one"}
    assert written(log) == {"a": b"onetwo"}


def test_a_sync_covers_only_what_was_written_before_it_began() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "one")
    log.add(f"fsync({at('a', 3)} <unfinished ...>", thread=8)
    log.wrote("a", 3, "two")
    log.add("<... fsync resumed>) = 0 <0.000300>", thread=8)
    assert left(log) == {"a": b"one"}


def test_a_sync_that_had_not_returned_stores_nothing() -> None:
    log = Log().opened("a", 3).call("fsync", at("a", 3)).wrote("a", 3, "one")
    log.add(f"fdatasync({at('a', 3)} <unfinished ...>")
    assert left(log) == {"a": b""}


def test_a_sync_that_failed_stores_nothing() -> None:
    log = Log().opened("a", 3).call("fsync", at("a", 3)).wrote("a", 3, "one")
    log.call("fdatasync", at("a", 3), result="-1 EIO (Input/output error)")
    assert left(log) == {"a": b""}


def test_a_file_that_was_never_synced_is_gone_with_its_name() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "one")
    assert left(log) == {}
    assert written(log) == {"a": b"one"}


def test_a_write_to_a_synchronous_file_needs_no_sync() -> None:
    assert left(Log().opened("a", 3, "O_WRONLY|O_CREAT|O_DSYNC").wrote("a", 3, "one")) == {"a": b"one"}


def test_an_appending_descriptor_writes_at_the_end() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "one").opened("a", 4, "O_WRONLY|O_APPEND").wrote("a", 4, "two")
    assert written(log.wrote("a", 3, "three")) == {"a": b"onethree"}


def test_a_write_at_a_place_and_a_cut_leave_the_rest() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "abcdef").call("fsync", at("a", 3))
    log.call("pwrite64", at("a", 3), f'"{hexed("XY")}"', "2", "1", result="2").call("ftruncate", at("a", 3), "5")
    assert written(log) == {"a": b"aXYde"}
    assert left(log) == {"a": b"abcdef"}


def test_reserved_space_is_zeros() -> None:
    log = Log().opened("a", 3).call("fallocate", at("a", 3), "0", "0", "8").wrote("a", 3, "one")
    assert left(log.call("fdatasync", at("a", 3))) == {"a": b"one\0\0\0\0\0"}


def test_a_rename_needs_a_sync_of_the_folder() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "one").call("fsync", at("a", 3)).call("rename", named("a"), named("b"))
    assert left(log) == {"a": b"one"}
    log.opened("", 4, "O_RDONLY|O_DIRECTORY").call("fsync", at("", 4))
    assert left(log) == {"b": b"one"}


def test_a_file_renamed_over_another_one_takes_what_it_holds_with_it() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "old").call("fsync", at("a", 3)).opened("b", 4).wrote("b", 4, "new")
    log.call("rename", named("b"), named("a"))
    assert left(log) == {"a": b"old"}
    answers = iter([2])  # both changes of names: "b" came, and took the place of "a"
    assert log.disk().survivors(lambda _states: next(answers)) == {Path("a"): b"new"}
    log.opened("", 5, "O_RDONLY|O_DIRECTORY").call("fsync", at("", 5))
    assert left(log) == {"a": b"new"}


def test_a_removal_needs_a_sync_of_the_folder() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "one").call("fsync", at("a", 3)).call("unlink", named("a"))
    assert left(log) == {"a": b"one"}
    assert written(log) == {}


def test_a_sync_of_a_file_keeps_the_folders_above_it() -> None:
    log = Log().call("mkdir", named("in"), "0777").opened("in/a", 3).wrote("in/a", 3, "one")
    assert left(log) == {}
    assert left(log.call("fsync", at("in/a", 3))) == {"in": None, "in/a": b"one"}


def test_pages_survive_each_for_itself() -> None:
    log = (
        Log()
        .opened("a", 3)
        .wrote("a", 3, "a" * 8192)
        .call("fsync", at("a", 3))
        .call("lseek", at("a", 3), "0", "SEEK_SET")
    )
    answers = iter([0, 0, 0, 1])  # no change of a name, the old size, the first page old, the second page new
    log.wrote("a", 3, "b" * 8192)
    (content,) = log.disk().survivors(lambda _states: next(answers)).values()
    assert content == b"a" * 4096 + b"b" * 4096


def test_what_the_kernel_wrote_back_by_itself_survives() -> None:
    log = Log().opened("a", 3).wrote("a", 3, "one").wrote("a", 3, "two")
    assert log.disk().survivors(oldest, written_back=2) == {Path("a"): b"one"}


def test_whatever_was_there_when_all_was_settled_survives() -> None:
    disk = Log().opened("a", 3).wrote("a", 3, "one").disk()
    disk.settle()
    assert disk.survivors(oldest) == {Path("a"): b"one"}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("mmap", ("NULL", "4096", "PROT_READ|PROT_WRITE", "MAP_SHARED", at("a", 3), "0")),
        ("pwritev", (at("a", 3), "[]", "0", "0")),
        ("fallocate", (at("a", 3), "FALLOC_FL_PUNCH_HOLE", "0", "1")),
        ("write", (at("a", 9), f'"{hexed("x")}"', "1")),
    ],
)
def test_what_the_disk_does_not_know_is_not_judged(name: str, arguments: tuple[str, ...]) -> None:
    log = Log().opened("a", 3).call(name, *arguments)
    with pytest.raises(NotJudged):
        log.disk()


def test_the_index_of_sqlite_may_be_mapped() -> None:
    log = Log().opened("a-shm", 3)
    log.call("mmap", "NULL", "4096", "PROT_READ|PROT_WRITE", "MAP_SHARED", at("a-shm", 3), "0", result="0x7f0000")
    assert written(log) == {"a-shm": b""}


def test_a_line_or_a_string_that_is_not_whole_is_refused() -> None:
    with pytest.raises(LogNotUnderstood):
        list(calls_in(["7 100.000000 write(3, what"]))
    with pytest.raises(LogNotUnderstood):
        data_of(f'"{hexed("abc")}"...')
