"""The process that decodes pictures and runs the model, and may die of either. `engine` starts it.

    python -m farmiq.edge.vision_inference.engine_child MEMORY_BYTES_MAX

It gives up what it does not need before it reads a byte: memory beyond the limit, writing files, opening many, leaving a core.
Time is counted for each picture by itself, and as time that it really computed. When the service is gone, so is the other end
of its input, and it ends.
"""

import resource
import sys
from typing import Any, BinaryIO

import msgspec
import onnxruntime  # type: ignore[import-untyped]  # ships no types

from farmiq.edge.vision_inference.messages import (
    LENGTH,
    Failed,
    Load,
    Loaded,
    LookAt,
    NotLoaded,
    OutOfMemory,
    Refused,
    Reply,
    Saw,
    Task,
    framed,
)
from farmiq.edge.vision_inference.preparation import prepared
from farmiq.kit.pictures import PictureRefused

FILES_MAX = 64
REASON_LENGTH_MAX = 500


def main() -> None:
    _give_up_rights(int(sys.argv[1]))
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    tasks = msgspec.msgpack.Decoder(Task)
    load = tasks.decode(_next(source) or b"")
    assert isinstance(load, Load)  # noqa: S101 - `engine` begins with it
    session = _load(load)
    if isinstance(session, NotLoaded):
        _say(sink, session)
        return
    _say(sink, Loaded())
    while (body := _next(source)) is not None:
        task = tasks.decode(body)
        assert isinstance(task, LookAt)  # noqa: S101 - one model for one process
        _say(sink, _answer(session, load, task))


def _give_up_rights(memory_bytes_max: int) -> None:
    for limit, value in (
        (resource.RLIMIT_AS, memory_bytes_max),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, FILES_MAX),
    ):
        resource.setrlimit(limit, (value, value))


def _load(load: Load) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = load.threads
    options.inter_op_num_threads = 1
    # A thread that waits for its next picture in a loop would keep a core from everybody else on the box.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(load.content, options, providers=["CPUExecutionProvider"])
    except MemoryError:
        return NotLoaded("it needs more memory than it may have")
    except Exception as error:  # noqa: BLE001 - whatever the runtime says of the file is the answer
        return NotLoaded(_reason(error))
    return _complaint(session, load) or session


def _complaint(session: Any, load: Load) -> NotLoaded | None:
    """The card and the file must agree about what goes in and what comes out."""
    inputs = {one.name: one for one in session.get_inputs()}
    outputs = {one.name for one in session.get_outputs()}
    if list(inputs) != [load.input_name]:
        return NotLoaded(f"its inputs are {sorted(inputs)}, its card says {load.input_name}")
    if inputs[load.input_name].type != "tensor(uint8)":
        return NotLoaded(f"its input is {inputs[load.input_name].type}, its card says uint8")
    if missing := [name for name in load.outputs if name not in outputs]:
        return NotLoaded(f"it has no output {missing[0]}")
    return None


def _next(source: BinaryIO) -> bytes | None:
    head = source.read(LENGTH.size)
    return source.read(LENGTH.unpack(head)[0]) if len(head) == LENGTH.size else None


def _say(sink: BinaryIO, reply: Reply) -> None:
    sink.write(framed(reply))
    sink.flush()


def _answer(session: Any, load: Load, task: LookAt) -> Reply:
    _allow(task.cpu_seconds_max)
    try:
        pixels = prepared(task.data, load.width, load.height, task.pixels_max)
        found = session.run(load.outputs, {load.input_name: pixels})
        return Saw({name: _single(values) for name, values in zip(load.outputs, found, strict=True)})
    except PictureRefused as refusal:
        return Refused(type(refusal).__name__, str(refusal))
    except MemoryError:
        return OutOfMemory()
    except Exception as error:  # noqa: BLE001 - a model may fail in every way there is
        # The runtime has no exception of its own for this.
        return OutOfMemory() if "allocate" in str(error) else Failed(_reason(error))


def _single(values: Any) -> float | str:
    (value,) = values.reshape(-1).tolist()
    return value if isinstance(value, str) else float(value)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:REASON_LENGTH_MAX]


def _allow(cpu_seconds: int) -> None:
    """From now on. Over the limit the kernel ends the process, whatever it is doing."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    until = int(used.ru_utime + used.ru_stime) + 1 + cpu_seconds
    resource.setrlimit(resource.RLIMIT_CPU, (until, resource.RLIM_INFINITY))


if __name__ == "__main__":
    main()
