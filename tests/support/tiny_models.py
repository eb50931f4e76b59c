"""ONNX models small enough to be written by hand, with answers that can be worked out on paper.

They look at how bright a picture is on average, from 0 to 255: the weight is a multiple of it, the confidence is fixed. Those
with a temper behave like that until they see what they cannot bear: a black picture, or a white one.
"""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any, Literal

WIDTH, HEIGHT = 160, 80
FLOAT, UINT8, INT64, STRING, BOOL = 1, 2, 7, 8, 9

Temper = Literal["even", "hangs", "eats memory", "fails", "no number"]


def tiny_model(
    kg_per_level: float = 1.0, confidence: float = 0.75, temper: Temper = "even", size: str | None = None
) -> bytes:
    nodes = [
        _node("Cast", ["picture"], "levels", to=FLOAT),
        _node("ReduceMean", ["levels"], "mean", axes=[1, 2, 3], keepdims=0),
        _node("Mul", ["mean", "kg_per_level"], "plain_kg"),
        _node("Mul", ["mean", "zero"], "nothing"),
        _node("Add", ["nothing", "sure"], "confidence"),
        *_TEMPERS[temper],
        _node("Add", ["plain_kg", "whim"], "weight_kg"),
    ]
    outputs = [_value("weight_kg", FLOAT, "number"), _value("confidence", FLOAT, "number")]
    constants = [
        _floats("kg_per_level", kg_per_level),
        _floats("zero", 0.0),
        _floats("sure", confidence),
        _floats("nearly_white", 250.0),
        _floats("nearly_black", 5.0),
        _integers("very_many", 1 << 40),
        _integers("one", 1),
        _integers("three", 3),
    ]
    if size is not None:
        nodes.append(_node("Identity", ["size"], "predicted_size"))
        constants.append(_field(1, 1) + _field(2, STRING) + _field(6, size.encode()) + _field(8, b"size"))
        outputs.append(_value("predicted_size", STRING, "number"))
    graph = b"".join(_field(1, node) for node in nodes) + _field(2, b"tiny")
    graph += b"".join(_field(5, constant) for constant in constants)
    graph += _field(11, _value("picture", UINT8, "number", HEIGHT, WIDTH, 3))
    graph += b"".join(_field(12, output) for output in outputs)
    return _field(1, 8) + _field(7, graph) + _field(8, _field(1, b"") + _field(2, 17))


def card_of(content: bytes, version: str, **changes: Any) -> bytes:
    outputs = {"weight_kg": {"type": "float32"}, "confidence": {"type": "float32"}}
    card = {
        "card_version": 1,
        "model_version": version,
        "sha256": hashlib.sha256(content).hexdigest(),
        "input": {
            "name": "picture", "type": "uint8", "layout": "NHWC", "colour": "RGB", "width": WIDTH, "height": HEIGHT,
        },
        "outputs": outputs,
        "limits": "for tests",
    }  # fmt: skip
    return json.dumps(card | changes).encode()


def write_model(folder: Path, version: str, content: bytes | None = None, **changes: Any) -> Path:
    """The file and its card. Returns the file's path."""
    content = tiny_model() if content is None else content
    path = folder / f"{version}.onnx"
    path.write_bytes(content)
    path.with_suffix(".json").write_bytes(card_of(content, version, **changes))
    return path


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def _node(operation: str, inputs: list[str], *outputs: str, **settings: int | list[int] | bytes) -> bytes:
    node = b"".join(_field(1, name.encode()) for name in inputs)
    node += b"".join(_field(2, name.encode()) for name in outputs) + _field(4, operation.encode())
    return node + b"".join(_field(5, _setting(name, value)) for name, value in settings.items())


def _setting(name: str, value: int | list[int] | bytes) -> bytes:
    named = _field(1, name.encode())
    if isinstance(value, int):
        return named + _field(3, value) + _field(20, 2)
    if isinstance(value, bytes):
        return named + _field(6, value) + _field(20, 5)
    return named + b"".join(_field(8, one) for one in value) + _field(20, 7)


def _value(name: str, kind: int, *shape: int | str) -> bytes:
    dims = b"".join(_field(1, _field(1, size) if isinstance(size, int) else _field(2, size.encode())) for size in shape)
    return _field(1, name.encode()) + _field(2, _field(1, _field(1, kind) + _field(2, dims)))


def _floats(name: str, *values: float) -> bytes:
    data = struct.pack(f"<{len(values)}f", *values)
    return _field(1, len(values)) + _field(2, FLOAT) + _field(8, name.encode()) + _field(9, data)


def _integers(name: str, *values: int) -> bytes:
    data = struct.pack(f"<{len(values)}q", *values)
    return _field(1, len(values)) + _field(2, INT64) + _field(8, name.encode()) + _field(9, data)


# How often the whim is worked out: 1 for most pictures, very often for a white one.
_HOW_MANY = [
    _node("Greater", ["mean", "nearly_white"], "is_white"),
    _node("Where", ["is_white", "very_many", "one"], "how_many"),
]
_ROUND = (
    _field(1, _node("Identity", ["go_on"], "went_on"))
    + _field(1, _node("Add", ["so_far", "nothing"], "further"))
    + _field(2, b"round")
    + _field(11, _value("turn", INT64))
    + _field(11, _value("go_on", BOOL))
    + _field(11, _value("so_far", FLOAT, 1))
    + _field(12, _value("went_on", BOOL))
    + _field(12, _value("further", FLOAT, 1))
)
_TEMPERS: dict[Temper, list[bytes]] = {
    "even": [_node("Identity", ["nothing"], "whim")],
    "hangs": [
        *_HOW_MANY,
        _node("Squeeze", ["how_many"], "turns"),
        _node("Loop", ["turns", "", "nothing"], "whim", body=_ROUND),
    ],
    "eats memory": [
        *_HOW_MANY,
        _node("ConstantOfShape", ["how_many"], "zeros"),
        _node("ReduceSum", ["zeros"], "whim", keepdims=0),
    ],
    # One number cannot be written as three.
    "fails": [
        *_HOW_MANY,
        _node("Min", ["how_many", "three"], "few"),
        _node("Reshape", ["nothing", "few"], "whim"),
    ],
    "no number": [
        _node("Sub", ["mean", "nearly_black"], "above_black"),
        _node("Log", ["above_black"], "logarithm"),
        _node("Mul", ["logarithm", "zero"], "whim"),
    ],
}
