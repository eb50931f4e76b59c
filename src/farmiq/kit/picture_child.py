"""The process that looks at pictures, and may die of them. `picture_worker` starts it and speaks with it through pipes.

    python -m farmiq.kit.picture_child MEMORY_BYTES_MAX

It gives up what it does not need before it reads a byte: memory beyond the limit, writing files, opening many, leaving a core.
Time is counted for each picture by itself, and as time that it really computed, so a busy machine refuses nothing. When the
service is gone, so is the other end of its input, and it ends.
"""

import io
import resource
import sys
from typing import BinaryIO

import msgspec
from PIL import Image

from farmiq.kit.picture_tasks import LENGTH, Drawn, LookAt, Looked, OutOfMemory, Ready, Refused, Reply, Task, framed
from farmiq.kit.pictures import CONTENT_TYPES, PictureRefused, look_at, thumbnail

FILES_MAX = 32
SAMPLE_SIZE = (640, 480)


def main() -> None:
    _give_up_rights(int(sys.argv[1]))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    tasks = msgspec.msgpack.Decoder(Task)
    _warm_up()
    _say(sink, Ready())
    while (body := _next(source)) is not None:
        _say(sink, _answer(tasks, body))


def _give_up_rights(memory_bytes_max: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory_bytes_max),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, FILES_MAX),
    ):
        resource.setrlimit(limit, (value, value))


def _warm_up() -> None:
    """A limit that leaves no room for any picture shows here, and is not taken for a fault of the first one."""
    for content_type in CONTENT_TYPES:
        sample = io.BytesIO()
        Image.new("RGB", SAMPLE_SIZE).save(sample, CONTENT_TYPES[content_type])
        look_at(sample.getvalue(), content_type=content_type)


def _next(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    return source.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else None


def _say(sink: BinaryIO, reply: Reply) -> None:
    sink.write(framed(reply))
    sink.flush()


def _answer(tasks: "msgspec.msgpack.Decoder[Task]", body: bytes) -> Reply:
    try:
        task = tasks.decode(body)
        _allow(task.cpu_seconds_max)
        if isinstance(task, LookAt):
            seen = look_at(task.data, content_type=task.content_type, pixels_max=task.pixels_max)
            return Looked(seen.width, seen.height, seen.format)
        return Drawn(thumbnail(task.data, edge_pixels_max=task.edge_pixels_max, pixels_max=task.pixels_max))
    except PictureRefused as refusal:
        return Refused(type(refusal).__name__, str(refusal))
    except MemoryError:
        return OutOfMemory()


def _allow(cpu_seconds: int) -> None:
    """From now on. Over the limit the kernel ends the process, whatever the decoder is doing."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
