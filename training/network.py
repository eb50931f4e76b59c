"""The network: it draws the animal and the crate, measures the drawing, and weighs by the measures.

Squares of four pixels by four become one cell of 48 numbers, so nothing is lost and every layer after that is small. Seven
convolutions look at ever larger parts of the picture, three more bring it back, and each cell comes out as two by two points of
three drawings: the trunk of the animal, the floor between the walls, the opening between the tops of the walls. The weight is
worked out from nine measures of these drawings, by a polynomial of sixteen coefficients: colours and textures can mislead the
drawing, but not the weighing. With true drawings that polynomial is within 1.5 % of the weight. Whether there is an animal, and
how far off the weight may be, is also told by the smallest layer and by how blurred the drawings are.

A finished model draws each picture four times, as it is and mirrored, and goes by the mean of the four drawings.

Batch normalisation makes it learn quickly; `folded` takes it out again, so the exported graph is plain."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np
from numpy.typing import NDArray

from preparation import HEIGHT, SEEN

Weights = dict[str, Any]  # arrays by name

DRAWINGS = 3
SHRUNK = 2  # the drawings are half as wide and high as the picture
CELL, POINTS = 4, 2  # pixels and points of a drawing along one side of a cell
WIDTH = SEEN.stop - SEEN.start
ROWS, COLUMNS = HEIGHT // SHRUNK, WIDTH // SHRUNK
# The crate's width is taken apart by the distance from the middle of the picture: a lens bends straight lines.
BANDS = 4
MEASURES = 1 + 2 * BANDS
SUMMARY = 3  # trunk, floor, opening: the measures that are also multiplied with each other
PRODUCTS = tuple((first, second) for first in range(SUMMARY) for second in range(first, SUMMARY))
JUDGED = 48
TINY = 1e-6
FLATTEST = 0.0025  # a picture of one colour is not blown up into noise
MOMENTUM, EPSILON = 0.99, 1e-3
GENTLY = 0.1
NEVER_ZERO = 0.1
# Where the logarithms lie for a middling animal, so that they start near 0: cells of the trunk, rows of floor and opening.
LOG_CENTRES = np.array((6.1, *(BANDS * (3.4,)), *(BANDS * (3.8,))), np.float32)
# The axes of number x height x width x channels that each of the four looks is mirrored in.
LOOKS: tuple[tuple[int, ...], ...] = ((), (1,), (2,), (1, 2))


@dataclass(frozen=True)
class Convolution:
    name: str
    side: int
    inputs: int
    outputs: int
    step: int = 1
    is_normed: bool = True


DOWN = (
    Convolution("down0", 3, CELL**2 * 3, 40),
    Convolution("down1", 3, 40, 64, step=2),
    Convolution("down2", 3, 64, 64),
    Convolution("down3", 3, 64, 96, step=2),
    Convolution("down4", 3, 96, 96),
    Convolution("down5", 3, 96, 96),
    Convolution("down6", 3, 96, 96),
)
# Each way up adds what was seen at that size on the way down.
UP = (
    ("down2", Convolution("lift1", 1, 96, 64, is_normed=False), Convolution("side1", 1, 64, 64, is_normed=False),
     Convolution("merge1", 3, 64, 64)),
    ("down0", Convolution("lift0", 1, 64, 40, is_normed=False), Convolution("side0", 1, 40, 40, is_normed=False),
     Convolution("merge0", 3, 40, 40)),
)  # fmt: skip
DRAW = Convolution("draw", 3, 40, POINTS**2 * DRAWINGS, is_normed=False)
SQUEEZE = Convolution("squeeze", 1, 96, 16, is_normed=False)
CONVOLUTIONS = (*DOWN, *(part for _, *parts in UP for part in parts), DRAW, SQUEEZE)
DENSE = {
    "weight": (MEASURES + len(PRODUCTS), 1),
    "judge": (SQUEEZE.outputs * (HEIGHT // 16) * (WIDTH // 16), JUDGED),
    "verdict": (JUDGED + 1 + DRAWINGS, 2),
}

Layer = Callable[[Convolution, jax.Array], jax.Array]


@dataclass(frozen=True)
class Seen:
    numbers: jax.Array  # number x 3: logarithm of the weight, logarithm of its spread, score of an animal
    drawings: jax.Array  # number x 3 x rows x columns, before the sigmoid
    features: jax.Array  # number x features: what the weight is a sum of
    signs: jax.Array  # number x signs: what the verdict is worked out from


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
    # A weight grows with the power of an area, and an area in metres shrinks with the scale.
    slopes = np.array([1.4, *BANDS * (-2.2 / BANDS,), *BANDS * (-0.6 / BANDS,), *len(PRODUCTS) * (0.0,)], np.float32)
    learned["weight"], learned["weight_shift"] = slopes[:, None], np.array([mean_log_weight], np.float32)
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

    return _told(learned, *_drawn(layer, pictures)), seen


def relearning(plain: Weights, pictures: jax.Array) -> Seen:
    """The same of a finished model: there is nothing left to count."""
    return _told(plain, *_drawn(_plainly(plain), pictures))


def predicting(plain: Weights, pictures: jax.Array) -> Seen:
    """From the mean of four looks."""
    number = len(pictures)
    looks = jnp.concatenate([jnp.flip(pictures, axes) for axes in LOOKS])
    drawings, squeezed = _drawn(_plainly(plain), looks)
    shown = jax.nn.sigmoid(drawings).reshape(len(LOOKS), number, DRAWINGS, ROWS, COLUMNS)
    turned_back = [jnp.flip(one, [axis + 1 for axis in axes]) for one, axes in zip(shown, LOOKS, strict=True)]
    mean = sum(turned_back[1:], turned_back[0]) / len(LOOKS)
    return _told(plain, jnp.log(mean + TINY) - jnp.log(1 - mean + TINY), squeezed[:number])


def _plainly(plain: Weights) -> Layer:
    def layer(which: Convolution, x: jax.Array) -> jax.Array:
        return _convolved(x, plain[which.name], which.step) + plain[f"{which.name}_shift"]

    return layer


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


def _drawn(layer: Layer, pictures: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The drawings before the sigmoid, and the smallest layer."""
    mean = jnp.mean(pictures, (1, 2, 3), keepdims=True)
    variance = jnp.mean((pictures - mean) ** 2, (1, 2, 3), keepdims=True)
    x = _celled((pictures - mean) / jnp.sqrt(variance + FLATTEST))
    kept: Weights = {}
    for which in DOWN:
        kept[which.name] = x = jax.nn.relu(layer(which, x))
    smallest = x
    for sidestep, lift, side, merge in UP:
        x = _doubled(layer(lift, x)) + layer(side, kept[sidestep])
        x = jax.nn.relu(layer(merge, jax.nn.relu(x)))
    return _pointed(layer(DRAW, x)), jax.nn.relu(layer(SQUEEZE, smallest)).reshape(len(pictures), -1)


def _told(weights: Weights, drawings: jax.Array, squeezed: jax.Array) -> Seen:
    shown = jax.nn.sigmoid(drawings)
    # The drawings are learned from drawings. From weights they learn too, but gently: a wrong weight alone doesn't tell
    # which line was drawn badly.
    features = featured(measured(GENTLY * shown + (1 - GENTLY) * jax.lax.stop_gradient(shown)))
    signs = jnp.concatenate(
        [squeezed, jax.lax.stop_gradient(jnp.concatenate([features[:, :1], _blurred(shown)], 1))], 1
    )
    numbers = jnp.concatenate([_dense(weights, "weight", features), judged(weights, signs)], 1)
    return Seen(numbers, drawings, features, signs)


def measured(drawings: jax.Array) -> jax.Array:
    """Logarithms of the trunk's area, and of the height of floor and opening, at four distances from the middle."""
    halves = jnp.sum(drawings[:, 1:], 2).reshape(-1, DRAWINGS - 1, 2, BANDS, COLUMNS // 2 // BANDS).mean(4)
    bands = (jnp.flip(halves[:, :, 0], 2) + halves[:, :, 1]) / 2
    sizes = jnp.concatenate([jnp.sum(drawings[:, :1], (2, 3)), bands.reshape(len(drawings), -1)], 1)
    return jnp.log(sizes + NEVER_ZERO) - LOG_CENTRES


def featured(measures: jax.Array) -> jax.Array:
    summary = _summary(measures)
    products = [summary[:, first] * summary[:, second] for first, second in PRODUCTS]
    return jnp.concatenate([measures, jnp.stack(products, 1)], 1)


def judged(weights: Weights, signs: jax.Array) -> jax.Array:
    """Number x 2: logarithm of the spread, score of an animal."""
    squeezed, rest = signs[:, : DENSE["judge"][0]], signs[:, DENSE["judge"][0] :]
    seen = jax.nn.relu(_dense(weights, "judge", squeezed))
    return _dense(weights, "verdict", jnp.concatenate([seen, rest], 1))


def _summary(measures: jax.Array) -> jax.Array:
    floor, opening = measures[:, 1 : 1 + BANDS], measures[:, 1 + BANDS :]
    return jnp.stack([measures[:, 0], jnp.mean(floor, 1), jnp.mean(opening, 1)], 1)


def _blurred(drawings: jax.Array) -> jax.Array:
    """How much of each drawing is neither here nor there."""
    return jnp.log(jnp.sum(drawings * (1 - drawings), (2, 3)) + 1.0)


def _dense(weights: Weights, name: str, x: jax.Array) -> jax.Array:
    return x @ weights[name] + weights[f"{name}_shift"]


def _celled(pictures: jax.Array) -> jax.Array:
    cells = pictures.reshape(-1, HEIGHT // CELL, CELL, WIDTH // CELL, CELL, 3)
    return jnp.transpose(cells, (0, 1, 3, 2, 4, 5)).reshape(-1, HEIGHT // CELL, WIDTH // CELL, CELL**2 * 3)


def _pointed(cells: jax.Array) -> jax.Array:
    """Cells as drawings: number x 3 x rows x columns."""
    points = cells.reshape(-1, ROWS // POINTS, COLUMNS // POINTS, POINTS, POINTS, DRAWINGS)
    return jnp.transpose(points, (0, 5, 1, 3, 2, 4)).reshape(-1, DRAWINGS, ROWS, COLUMNS)


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
