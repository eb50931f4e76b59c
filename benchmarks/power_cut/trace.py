"""What `strace` wrote down, as calls in the order in which they returned."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

# Every call that can change a file, and those that say which file a descriptor is.
CALLS = (
    "open", "openat", "creat", "close", "lseek", "dup", "dup2", "dup3", "mmap", "msync",
    "write", "pwrite64", "writev", "pwritev", "pwritev2", "sendfile", "copy_file_range", "splice",
    "truncate", "ftruncate", "fallocate", "fsync", "fdatasync", "sync", "syncfs",
    "rename", "renameat", "renameat2", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat",
    "link", "linkat", "symlink", "symlinkat",
)  # fmt: skip

_WHOLE_DATA = 1 << 24  # more than a store writes with one call

_LINE = re.compile(r"(?P<pid>\d+) +(?P<seconds>\d+\.\d+) (?P<body>.*)")
_UNFINISHED = " <unfinished ...>"
_RESUMED = re.compile(r"<\.\.\. \w+ resumed>")
_BODY = re.compile(r"(?P<name>\w+)\((?P<arguments>.*)\) += (?P<result>-?\d+|0x[0-9a-f]+|\?).* <(?P<took>\d+\.\d+)>")
_HEX = re.compile(r"\\x([0-9a-f]{2})")


class LogNotUnderstood(Exception):
    """A line of the log is not what strace 5 and 6 write. The message has the line."""


@dataclass(frozen=True, slots=True)
class Call:
    name: str
    arguments: tuple[str, ...]  # as strace wrote them, every string in hexadecimal
    result: int
    seconds: float  # when it had returned
    number: int  # in the order of returning, from 1
    begun: int  # the number of the last call that had returned when this one was made


def strace(log: Path) -> list[str]:
    """The command that stands before the one to be traced. Strings come whole and in hexadecimal, descriptors with paths."""
    form = [
        "-f",
        "--seccomp-bpf",
        "-y",
        "-xx",
        "-s",
        str(_WHOLE_DATA),
        "-ttt",
        "-T",
        "--quiet=all",
        "-e",
        "signal=none",
    ]
    return ["strace", *form, "-e", f"trace={','.join(f'?{name}' for name in CALLS)}", "-o", str(log)]


def calls_in(lines: Iterable[str]) -> Iterator[Call]:
    returned = 0
    waiting: dict[str, tuple[str, int]] = {}
    for line in lines:
        parts = _LINE.fullmatch(line.rstrip("\n"))
        if parts is None:
            raise LogNotUnderstood(line[:200])
        body, begun = parts["body"], returned
        if body.endswith(_UNFINISHED):
            waiting[parts["pid"]] = (body.removesuffix(_UNFINISHED), returned)
            continue
        was_interrupted = _RESUMED.match(body)
        if was_interrupted:
            first, begun = waiting.pop(parts["pid"])
            body = first + body[was_interrupted.end() :]
        call = _BODY.fullmatch(body)
        if call is None:
            raise LogNotUnderstood(body[:200])
        if call["result"] == "?":
            continue  # it never returned: the process was killed in it
        returned += 1
        # The time of a line is that of its beginning, unless another line came between.
        seconds = float(parts["seconds"]) + (0.0 if was_interrupted else float(call["took"]))
        arguments = tuple(call["arguments"].split(", ")) if call["arguments"] else ()
        yield Call(call["name"], arguments, int(call["result"], 0), seconds, returned, begun)


def data_of(argument: str) -> bytes:
    """The bytes of a string."""
    if not (argument.startswith('"') and argument.endswith('"')):
        raise LogNotUnderstood(f"not a whole string: {argument[:80]}")
    return bytes.fromhex("".join(_HEX.findall(argument)))


def descriptor_of(argument: str) -> tuple[int | None, Path | None]:
    """`3</path>` as number and path; `AT_FDCWD</path>` has no number, a closed or anonymous one no path."""
    number, _, rest = argument.partition("<")
    path = "".join(chr(int(code, 16)) for code in _HEX.findall(rest))
    is_number = number.lstrip("-").isdigit()
    return int(number) if is_number else None, Path(path) if path.startswith("/") else None
