"""Writes the ONNX file and the card beside it, and reads the weights of a finished model back."""

import hashlib
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import onnx  # type: ignore[import-not-found]  # installed in .venv-training only
import onnxruntime  # type: ignore[import-untyped]  # ships no types
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from calibration import TOLERANCE, Calibration, Judged
from network import (
    BANDS,
    CELL,
    COLUMNS,
    CONVOLUTIONS,
    DENSE,
    DOWN,
    DRAW,
    DRAWINGS,
    FLATTEST,
    LOG_CENTRES,
    LOOKS,
    MEASURES,
    NEVER_ZERO,
    POINTS,
    PRODUCTS,
    ROWS,
    SQUEEZE,
    UP,
    Convolution,
    Weights,
)
from network import WIDTH as NETWORK_WIDTH
from preparation import HEIGHT, SEEN, WIDTH, Pictures
from weighing import SPREAD_MIN

OPSET, IR_VERSION = 17, 8


class ExportDiffers(Exception):
    """The ONNX file answers differently from the network that it was made from. Nothing was written over the old model."""


class _Graph:
    """Nodes in order, with the constants that they use."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, name: str, value: Any) -> str:
        self.constants.append(numpy_helper.from_array(np.array(value, order="C"), name))
        return name

    def node(self, operation: str, inputs: list[str], output: str, **settings: Any) -> str:
        self.nodes.append(helper.make_node(operation, inputs, [output], name=output, **settings))
        return output


def graph(plain: Weights, calibration: Calibration) -> Any:
    """Bytes of a picture in, kilograms and confidence out: scaling and calibration are part of the graph."""
    g = _Graph()
    kept = _way_down(g, plain, g.node("SpaceToDepth", [_looks(g, _normalised(g))], "cells", blocksize=CELL))
    points = g.node("DepthToSpace", [_convolution(g, plain, DRAW, _way_up(g, plain, kept))], "points", blocksize=POINTS)
    drawings = _mean_of_looks(g, g.node("Sigmoid", [points], "all_drawings"))
    smallest = g.node("Relu", [_convolution(g, plain, SQUEEZE, kept[DOWN[-1].name])], "all_squeezed")
    squeezed = _look(
        g, _apart(g, smallest, (SQUEEZE.outputs, HEIGHT // 16, NETWORK_WIDTH // 16), "squeezed"), 0, "squeezed"
    )
    # The network flattens with the channels last.
    squeezed = g.node("Transpose", [squeezed], "channels_last", perm=[0, 2, 3, 1])
    numbers = _weighed(g, plain, drawings, g.node("Flatten", [squeezed], "squeezed_flat", axis=1))
    _answers(g, numbers, calibration)
    picture = helper.make_tensor_value_info("picture", TensorProto.UINT8, ["number", HEIGHT, WIDTH, 3])
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["number"]) for name in OUTPUTS]
    made = helper.make_graph(g.nodes, "weighvision", [picture], outputs, g.constants)
    opset = [helper.make_opsetid("", OPSET)]
    model = helper.make_model(made, opset_imports=opset, ir_version=IR_VERSION, producer_name="farmiq")
    onnx.checker.check_model(model, full_check=True)
    return model


OUTPUTS = ("weight_kg", "spread_kg", "animal", "confidence")
SEEN_COLUMNS = {"start": SEEN.start, "end": SEEN.stop, "axis": 2}


def _normalised(g: _Graph) -> str:
    bounds = [g.constant(f"seen_{part}", np.array([value])) for part, value in SEEN_COLUMNS.items()]
    x = g.node("Cast", [g.node("Slice", ["picture", *bounds], "middle")], "as_float", to=TensorProto.FLOAT)
    x = g.node("Div", [x, g.constant("half_range", np.float32(127.5))], "divided")
    x = g.node("Sub", [x, g.constant("one", np.float32(1))], "scaled")
    x = g.node("Transpose", [x], "channels_first", perm=[0, 3, 1, 2])
    x = g.node("Sub", [x, g.node("ReduceMean", [x], "brightness", axes=[1, 2, 3])], "centred")
    variance = g.node("ReduceMean", [g.node("Mul", [x, x], "squared")], "variance", axes=[1, 2, 3])
    variance = g.node("Add", [variance, g.constant("flattest", np.float32(FLATTEST))], "kept_variance")
    return g.node("Div", [x, g.node("Sqrt", [variance], "contrast")], "normalised")


def _looks(g: _Graph, x: str) -> str:
    """One after the other: all pictures as they are, then all of them mirrored in each way."""
    return g.node(
        "Concat", [_mirrored(g, x, axes, f"look{index}") for index, axes in enumerate(LOOKS)], "looks", axis=0
    )


def _mean_of_looks(g: _Graph, drawings: str) -> str:
    apart = _apart(g, drawings, (DRAWINGS, ROWS, COLUMNS), "drawings")
    turned = [
        _mirrored(g, _look(g, apart, index, f"drawings{index}"), axes, f"drawings_back{index}")
        for index, axes in enumerate(LOOKS)
    ]
    return g.node("Mean", turned, "drawings")


def _apart(g: _Graph, x: str, shape: tuple[int, ...], name: str) -> str:
    sizes = g.constant(f"{name}_shape", np.array([len(LOOKS), -1, *shape]))
    return g.node("Reshape", [x, sizes], f"{name}_apart")


def _look(g: _Graph, apart: str, index: int, name: str) -> str:
    return g.node("Gather", [apart, g.constant(f"{name}_index", np.int64(index))], name, axis=0)


def _mirrored(g: _Graph, x: str, axes: tuple[int, ...], name: str) -> str:
    """`axes` as in `LOOKS`; here the channels come before height and width."""
    if not axes:
        return x
    backwards = {"start": [-1], "end": [np.iinfo(np.int64).min], "axes": [], "step": [-1]}
    bounds = [
        g.constant(f"{name}_{part}", np.array([axis + 1 for axis in axes] if part == "axes" else value * len(axes)))
        for part, value in backwards.items()
    ]
    return g.node("Slice", [x, *bounds], name)


def _convolution(g: _Graph, plain: Weights, layer: Convolution, x: str) -> str:
    kernel = g.constant(layer.name, np.asarray(plain[layer.name]).transpose(3, 2, 0, 1))
    shift = g.constant(f"{layer.name}_shift", plain[f"{layer.name}_shift"])
    settings = {"strides": [layer.step] * 2, "pads": [layer.side // 2] * 4}
    return g.node("Conv", [x, kernel, shift], f"{layer.name}_out", **settings)


def _way_down(g: _Graph, plain: Weights, x: str) -> dict[str, str]:
    kept = {}
    for layer in DOWN:
        x = g.node("Relu", [_convolution(g, plain, layer, x)], f"{layer.name}_relu")
        kept[layer.name] = x
    return kept


def _way_up(g: _Graph, plain: Weights, kept: dict[str, str]) -> str:
    x = kept[DOWN[-1].name]
    doubling = g.constant("doubling", np.array((1, 1, 2, 2), np.float32))
    # Each cell becomes four alike, whatever a runtime's default for the places between them is.
    plainly = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    for sidestep, lift, side, merge in UP:
        lifted = g.node("Resize", [_convolution(g, plain, lift, x), "", doubling], f"{lift.name}_doubled", **plainly)
        x = g.node("Add", [lifted, _convolution(g, plain, side, kept[sidestep])], f"{merge.name}_sum")
        x = g.node("Relu", [x], f"{merge.name}_sum_relu")
        x = g.node("Relu", [_convolution(g, plain, merge, x)], f"{merge.name}_relu")
    return x


def _weighed(g: _Graph, plain: Weights, drawings: str, squeezed: str) -> str:
    measures = _measured(g, drawings)
    weight = _dense(g, plain, "weight", _featured(g, measures))
    area = g.node("Slice", [measures, *_range(g, "area", 0, 1)], "area")
    judged = g.node("Relu", [_dense(g, plain, "judge", squeezed)], "judged")
    signs = g.node("Concat", [judged, area, _blurred(g, drawings)], "judged_and_measured", axis=1)
    return g.node("Concat", [weight, _dense(g, plain, "verdict", signs)], "numbers", axis=1)


def _measured(g: _Graph, drawings: str) -> str:
    columns = g.node("ReduceSum", [drawings, g.constant("down_rows", np.array([2]))], "columns", keepdims=0)
    crate = g.node("Slice", [columns, *_range(g, "crate", 1, DRAWINGS)], "crate")
    bands = g.node("MatMul", [crate, g.constant("into_bands", _band_shares())], "bands")
    trunk = g.node("Slice", [columns, *_range(g, "trunk", 0, 1)], "trunk")
    trunk = g.node("ReduceSum", [trunk, g.constant("along_row", np.array([2]))], "trunk_area", keepdims=0)
    sizes = g.node("Concat", [trunk, g.node("Flatten", [bands], "bands_flat", axis=1)], "sizes", axis=1)
    sizes = g.node("Add", [sizes, g.constant("never_zero", np.float32(NEVER_ZERO))], "above_zero")
    return g.node("Sub", [g.node("Log", [sizes], "logged"), g.constant("centres", LOG_CENTRES)], "measures")


def _band_shares() -> NDArray[np.float32]:
    """Columns x bands: the mean over the columns of a band, left and right of the middle."""
    from_middle = np.abs(np.arange(COLUMNS) - (COLUMNS - 1) / 2)
    band = (from_middle // (COLUMNS / 2 / BANDS)).astype(int)
    shares: NDArray[np.float32] = (np.eye(BANDS)[band] / np.bincount(band)).astype(np.float32)
    return shares


def _featured(g: _Graph, measures: str) -> str:
    summary = g.node("MatMul", [measures, g.constant("into_summary", _summary_shares())], "summary")
    factors = [
        g.node("Gather", [summary, g.constant(f"factor{side}", np.array(places))], f"factors{side}", axis=1)
        for side, places in enumerate(zip(*PRODUCTS, strict=True))
    ]
    return g.node("Concat", [measures, g.node("Mul", factors, "products")], "features", axis=1)


def _summary_shares() -> NDArray[np.float32]:
    shares = np.zeros((MEASURES, 1 + 2), np.float32)
    shares[0, 0] = 1
    shares[1 : 1 + BANDS, 1] = shares[1 + BANDS :, 2] = 1 / BANDS
    return shares


def _blurred(g: _Graph, drawings: str) -> str:
    other = g.node("Sub", [g.constant("whole", np.float32(1)), drawings], "not_drawn")
    between = g.node("Mul", [drawings, other], "neither")
    total = g.node("ReduceSum", [between, g.constant("whole_drawing", np.array([2, 3]))], "blur", keepdims=0)
    return g.node("Log", [g.node("Add", [total, "whole"], "blur_above_one")], "blurred")


def _range(g: _Graph, name: str, start: int, end: int) -> list[str]:
    """Along the second axis."""
    parts = {"start": start, "end": end, "axis": 1}
    return [g.constant(f"{name}_{part}", np.array([value])) for part, value in parts.items()]


def _dense(g: _Graph, plain: Weights, name: str, x: str) -> str:
    shift = g.constant(f"{name}_shift", plain[f"{name}_shift"])
    return g.node("Gemm", [x, g.constant(name, plain[name]), shift], f"{name}_out")


def _answers(g: _Graph, numbers: str, calibration: Calibration) -> None:
    columns = [
        g.node("Gather", [numbers, g.constant(f"column{index}", np.int64(index))], f"number{index}", axis=1)
        for index in range(3)
    ]
    weight = g.node("Exp", [columns[0]], "weight_kg")
    bounds = [g.constant("spread_low", np.float32(-6)), g.constant("spread_high", np.float32(1))]
    raw = g.node("Exp", [g.node("Clip", [columns[1], *bounds], "log_spread")], "raw_spread")
    raw = g.node("Add", [raw, g.constant("spread_min", np.float32(SPREAD_MIN))], "kept_spread")
    spread = g.node("Mul", [raw, g.constant("spread_factor", np.float32(calibration.spread_factor))], "spread")
    g.node("Mul", [weight, spread], "spread_kg")
    score = g.node(
        "Mul", [columns[2], g.constant("animal_slope", np.float32(calibration.animal_slope))], "animal_sloped"
    )
    score = g.node("Add", [score, g.constant("animal_shift", np.float32(calibration.animal_shift))], "animal_score")
    animal = g.node("Sigmoid", [score], "animal")
    sides = []
    for name, bound in (("above", math.log1p(TOLERANCE)), ("below", math.log1p(-TOLERANCE))):
        reach = g.constant(f"reach_{name}", np.float32(bound / math.sqrt(2)))
        sides.append(g.node("Erf", [g.node("Div", [reach, spread], f"ratio_{name}")], f"erf_{name}"))
    share = g.node("Mul", [g.node("Sub", sides, "erf_between"), g.constant("half", np.float32(0.5))], "within")
    g.node("Mul", [animal, share], "confidence")


def write(model: Any, card: dict[str, Any], pictures: Pictures, expected: Judged, path: Path) -> None:
    """Both files, only when the model answers as the network did."""
    content = model.SerializeToString()
    difference = _difference(answers(content, pictures), expected)
    if difference > 1e-3:
        raise ExportDiffers(f"largest difference {difference:.2g} of the value, allowed 0.001")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    stated = {"file": path.name, "sha256": hashlib.sha256(content).hexdigest(), "bytes": len(content)}
    path.with_suffix(".json").write_text(json.dumps({**card, **stated}, indent=2) + "\n", encoding="utf-8")
    print(f"exported: {path} ({len(content)} bytes), largest difference from the network {difference:.1e}")


def answers(content: bytes, pictures: Pictures) -> dict[str, NDArray[np.float32]]:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    return dict(zip(OUTPUTS, session.run(list(OUTPUTS), {"picture": pictures}), strict=True))


def read_weights(path: Path) -> Weights:
    """The other way round: what `graph` stored, as the network knows it."""
    stored = {item.name: numpy_helper.to_array(item).copy() for item in onnx.load(path).graph.initializer}
    names = [*DENSE, *(layer.name for layer in CONVOLUTIONS)]
    plain: Weights = {name: stored[name] for name in names} | {
        f"{name}_shift": stored[f"{name}_shift"] for name in names
    }
    for layer in CONVOLUTIONS:
        plain[layer.name] = plain[layer.name].transpose(2, 3, 1, 0)
    return plain


def _difference(found: dict[str, NDArray[np.float32]], expected: Judged) -> float:
    """A weight counts where there may be an animal: without one it is worked out from a drawing of next to nothing."""
    may_be_one = expected.animal >= 0.001
    everywhere = np.ones_like(may_be_one)
    wanted = {
        "weight_kg": (expected.weights_kg, may_be_one),
        "spread_kg": (expected.weights_kg * expected.spread, may_be_one),
        "animal": (expected.animal, everywhere),
        "confidence": (expected.confidence, everywhere),
    }
    off = [np.abs(found[name] - value)[where] / (np.abs(value[where]) + 0.1) for name, (value, where) in wanted.items()]
    return float(np.max(np.concatenate(off)))
