"""Other colours and other light on the same picture: what a model must not go by.

Coats and floors are varied where pictures are drawn (`farmiq.sim.coats.invented`). Here each of them is painted over once more,
another way each time that the picture is learned from: stripes, marbling or blots of any size on the trunk and on the floor, and
a band of another brightness along the outline of the trunk, where it is easily mistaken for shadow or floor. Then comes what a
camera adds: colours are mixed anew, one picture in four loses them, light falls unevenly, and the curve from light to
brightness bends."""

import math
from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np

COLOURLESS = 0.25
SURFACES = 2  # the trunk, and the floor around it
PAINTED = np.array((0.6, 0.4))  # how many of each are painted over
RIMMED = 0.4
RIM = 8  # pixels: about as far from the outline a rim reaches


def repainting(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """The random numbers of one batch; `repainted` does the work where the network runs."""
    mixing = np.eye(3)[rng.permuted(np.tile(np.arange(3), (count, 1)), axis=1)]
    mixing = mixing + rng.normal(0.0, 0.15, (count, 3, 3))
    mixing[rng.random(count) < COLOURLESS] = 1 / 3
    drawn = _paint(count, rng) | {
        "mixing": mixing * np.exp(rng.normal(0.0, 0.15, (count, 1, 1))),
        "uneven": np.exp(rng.normal(0.0, 0.08, (count, 5, 10, 3))),
        "curve": np.clip(rng.normal(0.0, 0.2, (count, 1, 1, 1)), -0.6, 0.6),
    }
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def _paint(count: int, rng: np.random.Generator) -> dict[str, Any]:
    each = (count, SURFACES)
    waves = np.exp(rng.uniform(math.log(0.3), math.log(24.0), each)) * 2 * math.pi  # over the width of the picture
    angles = rng.uniform(0.0, 2 * math.pi, each)
    tones = rng.normal(0.0, 0.45, (*each, 1)) + rng.normal(0.0, 0.12, (*each, 3))
    rims = rng.normal(0.0, 0.6, (count, 1, 1, 1)) + rng.normal(0.0, 0.1, (count, 1, 1, 3))
    return {
        "across": waves * np.cos(angles),
        "down": waves * np.sin(angles),
        "begin": rng.uniform(0.0, 2 * math.pi, each),
        "clouds": rng.normal(0.0, 1.0, (*each, 10, 15)) * rng.uniform(0.0, 4.0, (*each, 1, 1)),
        "sharpness": np.exp(rng.uniform(math.log(0.5), math.log(6.0), each)),
        "tones": tones * (rng.random(each) < PAINTED)[..., None],
        "rims": rims * (rng.random((count, 1, 1, 1)) < RIMMED),
    }


def repainted(batch: dict[str, Any]) -> Any:
    """From -1 to 1, as the network takes it."""
    pictures = batch["pictures"].astype(jnp.float32) / 255 * _gains(batch)
    pictures = jnp.clip(jnp.einsum("nhwc,nck->nhwk", pictures, batch["mixing"]), 0, 1)
    pictures = jnp.clip(pictures * jax.image.resize(batch["uneven"], pictures.shape, "linear"), 0, 1)
    return pictures * (1 + batch["curve"] * (1 - pictures)) * 2 - 1


def _gains(batch: dict[str, Any]) -> Any:
    """How much lighter each pixel becomes. 1 wherever nothing was drawn by rule."""
    drawings = batch["drawings"].astype(jnp.float32) / 255
    trunk = drawings[:, 0]
    surfaces = jnp.stack([trunk, drawings[:, 1] * (1 - trunk)], 1)
    count, _, rows, columns = surfaces.shape
    x, y = jnp.arange(columns) / columns, jnp.arange(rows)[:, None] / columns
    clouds = jax.image.resize(batch["clouds"], surfaces.shape, "cubic")
    across, down, begin, sharpness = (batch[name][..., None, None] for name in ("across", "down", "begin", "sharpness"))
    marks = jnp.tanh(jnp.sin(x * across + y * down + begin + clouds) * sharpness)
    gains = jnp.einsum("nshw,nsc->nhwc", surfaces * marks, batch["tones"])
    inner = trunk.reshape(count, rows // RIM, RIM, columns // RIM, RIM).mean((2, 4))
    rim = trunk * (1 - jax.image.resize(inner, trunk.shape, "linear"))
    return jnp.exp(gains + rim[..., None] * batch["rims"] * 2)
