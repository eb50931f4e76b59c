"""The network: it draws the animal and the crate, measures the drawing, and weighs by the measures.

Six convolutions make the picture small, three more bring it back to half of its size as three drawings: the trunk of
the animal, the floor between the walls, the opening between the tops of the walls. How wide each drawing is, column by
column, is all that the weight is worked out from: colours and textures can mislead the drawing, but not the weighing. Whether
there is an animal, and how far off the weight may be, is also told by the smallest layer itself.

Batch normalisation makes it learn quickly; `folded` takes it out again, so the exported graph is plain."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np
from numpy.typing import NDArray

from preparation import HEIGHT, WIDTH

Weights = dict[str, Any]  # arrays by name

DRAWINGS = 3
SHRUNK = 2  # the drawings are half as wide and high as the picture
ROWS, COLUMNS = HEIGHT // SHRUNK, WIDTH // SHRUNK
LOGARITHMS = 3
MEASURED, MEASURED_AGAIN, JUDGED = 96, 48, 48
FLATTEST = 0.0025  # a picture of one colour is not blown up into noise
MOMENTUM, EPSILON = 0.99, 1e-3
GENTLY = 0.1
# Areas in cells of four pixels by four, and widths in the same cells.
AREA_SCALES = (SHRUNK**2 / 16, SHRUNK / 4 / COLUMNS, SHRUNK / 4 / COLUMNS)
LOG_CENTRES = (4.5, 2.0, 2.5)  # where the three logarithms lie for a middling animal, so that they start near 0


@dataclass(frozen=True)
class Convolution:
    name: str
    side: int
    inputs: int
    outputs: int
    step: int = 1
    is_normed: bool = True


DOWN = (
    Convolution("down0", 3, 3, 16, step=2),
    Convolution("down1", 3, 16, 24, step=2),
    Convolution("down2", 3, 24, 48, step=2),
    Convolution("down3", 3, 48, 48),
    Convolution("down4", 3, 48, 64, step=2),
    Convolution("down5", 3, 64, 64),
)
# Each way up adds what was seen at that size on the way down.
UP = (
    ("down3", Convolution("lift1", 1, 64, 32, is_normed=False), Convolution("side1", 1, 48, 32, is_normed=False),
     Convolution("merge1", 3, 32, 32)),
    ("down1", Convolution("lift0", 1, 32, 16, is_normed=False), Convolution("side0", 1, 24, 16, is_normed=False),
     Convolution("merge0", 3, 16, 16)),
    ("down0", Convolution("lift", 1, 16, 12, is_normed=False), Convolution("side", 1, 16, 12, is_normed=False),
     Convolution("merge", 3, 12, 12)),
)  # fmt: skip
DRAW = Convolution("draw", 1, 12, DRAWINGS, is_normed=False)
SQUEEZE = Convolution("squeeze", 1, 64, 16, is_normed=False)
CONVOLUTIONS = (*DOWN, *(part for _, *parts in UP for part in parts), DRAW, SQUEEZE)
DENSE = {
    "measure": (COLUMNS * DRAWINGS + ROWS, MEASURED),
    "measure_again": (MEASURED, MEASURED_AGAIN),
    "weight": (MEASURED_AGAIN + LOGARITHMS, 1),
    "judge": (SQUEEZE.outputs * (HEIGHT // 16) * (WIDTH // 16), JUDGED),
    "verdict": (MEASURED_AGAIN + JUDGED, 2),
}

Layer = Callable[[Convolution, jax.Array], jax.Array]


@dataclass(frozen=True)
class Seen:
    numbers: jax.Array  # number x 3: logarithm of the weight, logarithm of its spread, score of an animal
    drawings: jax.Array  # number x 3 x rows x columns, before the sigmoid


def fresh(seed: int, mean_log_weight: float) -> tuple[Weights, Weights]:
    """What is learned, and the running means that are only counted."""
    rng = np.random.default_rng(seed)
    learned: Weights = {}
    counted: Weights = {}
    for layer in CONVOLUTIONS:
        learned[layer.name] = _normal(rng, (layer.side, layer.side, layer.inputs, layer.outputs))
        learned[f"{layer.name}_shift"] = np.zeros(layer.outputs, np.float32)
        if layer.is_normed:
            learned[f"{layer.name}_scale"] = np.ones(layer.outputs, np.float32)
            counted[f"{layer.name}_mean"] = np.zeros(layer.outputs, np.float32)
            counted[f"{layer.name}_variance"] = np.ones(layer.outputs, np.float32)
    for name, shape in DENSE.items():
        learned[name] = _normal(rng, shape)
        learned[f"{name}_shift"] = np.zeros(shape[1], np.float32)
    # Where a straight line through true drawings and weights starts: a weight grows with the power of an area, and an area
    # in metres shrinks with the scale.
    slopes = np.array([[1.3], [-2.0], [-0.7]], np.float32)
    learned["weight"] = np.concatenate([learned["weight"][:MEASURED_AGAIN] * np.float32(0.1), slopes])
    learned["weight_shift"] = np.array([mean_log_weight + 0.9], np.float32)
    learned["verdict"] = learned["verdict"] * np.float32(0.1)
    learned["verdict_shift"] = np.array((-2.0, 1.0), np.float32)
    return learned, counted


def learning(learned: Weights, counted: Weights, pictures: jax.Array) -> tuple[Seen, Weights]:
    """Normalises by this batch, and keeps count for later. `pictures` from -1 to 1."""
    seen: Weights = {}

    def layer(which: Convolution, x: jax.Array) -> jax.Array:
        name = which.name
        x = _convolved(x, learned[name], which.step)
        if not which.is_normed:
            return x + learned[f"{name}_shift"]
        mean, variance = jnp.mean(x, (0, 1, 2)), jnp.var(x, (0, 1, 2))
        seen[f"{name}_mean"] = counted[f"{name}_mean"] * MOMENTUM + mean * (1 - MOMENTUM)
        seen[f"{name}_variance"] = counted[f"{name}_variance"] * MOMENTUM + variance * (1 - MOMENTUM)
        return (x - mean) * jax.lax.rsqrt(variance + EPSILON) * learned[f"{name}_scale"] + learned[f"{name}_shift"]

    return _seen(layer, learned, pictures), seen


def predicting(plain: Weights, pictures: jax.Array) -> Seen:
    def layer(which: Convolution, x: jax.Array) -> jax.Array:
        return _convolved(x, plain[which.name], which.step) + plain[f"{which.name}_shift"]

    return _seen(layer, plain, pictures)


def folded(learned: Weights, counted: Weights) -> Weights:
    plain: Weights = {
        name: np.asarray(value, np.float32) for name, value in learned.items() if not name.endswith("_scale")
    }
    for layer in CONVOLUTIONS:
        if layer.is_normed:
            deviation = np.sqrt(np.asarray(counted[f"{layer.name}_variance"]) + np.float32(EPSILON))
            gain = np.asarray(learned[f"{layer.name}_scale"]) / deviation
            plain[layer.name] = plain[layer.name] * gain
            plain[f"{layer.name}_shift"] = (
                plain[f"{layer.name}_shift"] - np.asarray(counted[f"{layer.name}_mean"]) * gain
            )
    return plain


def _seen(layer: Layer, weights: Weights, pictures: jax.Array) -> Seen:
    mean = jnp.mean(pictures, (1, 2, 3), keepdims=True)
    variance = jnp.mean((pictures - mean) ** 2, (1, 2, 3), keepdims=True)
    x = (pictures - mean) / jnp.sqrt(variance + FLATTEST)
    kept: Weights = {}
    for which in DOWN:
        kept[which.name] = x = jax.nn.relu(layer(which, x))
    smallest = x
    for sidestep, lift, side, merge in UP:
        x = _doubled(layer(lift, x)) + layer(side, kept[sidestep])
        x = jax.nn.relu(layer(merge, jax.nn.relu(x)))
    drawings = jnp.transpose(layer(DRAW, x), (0, 3, 1, 2))
    squeezed = jax.nn.relu(layer(SQUEEZE, smallest)).reshape(len(pictures), -1)
    return Seen(_weighed(weights, jax.nn.sigmoid(drawings), squeezed), drawings)


def _weighed(weights: Weights, drawings: jax.Array, squeezed: jax.Array) -> jax.Array:
    # The drawings are learned from drawings. From weights they learn too, but gently: a wrong weight alone doesn't tell
    # which line was drawn badly.
    drawings = GENTLY * drawings + (1 - GENTLY) * jax.lax.stop_gradient(drawings)
    columns, rows = jnp.sum(drawings, 2), jnp.sum(drawings[:, 0], 2)
    measures = jnp.concatenate([columns.reshape(len(columns), -1), rows], 1) * 0.05
    areas = jnp.sum(drawings, (2, 3)) * jnp.array(AREA_SCALES, jnp.float32)
    logarithms = jnp.log(areas + 0.1) - jnp.array(LOG_CENTRES, jnp.float32)
    x = jax.nn.relu(_dense(weights, "measure", measures))
    x = jax.nn.relu(_dense(weights, "measure_again", x))
    weight = _dense(weights, "weight", jnp.concatenate([x, logarithms], 1))
    judged = jax.nn.relu(_dense(weights, "judge", squeezed))
    return jnp.concatenate([weight, _dense(weights, "verdict", jnp.concatenate([x, judged], 1))], 1)


def _dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ weights[name] + weights[f"{name}_shift"]


def _doubled(x: jax.Array) -> jax.Array:
    return jnp.repeat(jnp.repeat(x, 2, axis=1), 2, axis=2)


def _convolved(x: jax.Array, kernel: Any, step: int) -> jax.Array:
    side = kernel.shape[0] // 2
    padding = ((side, side), (side, side))
    return jax.lax.conv_general_dilated(x, kernel, (step, step), padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    fan_in = int(np.prod(shape[:-1]))
    drawn: NDArray[np.float32] = (rng.standard_normal(shape) * np.sqrt(2.0 / fan_in)).astype(np.float32)
    return drawn
