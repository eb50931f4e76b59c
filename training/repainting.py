"""Other colours, other patterns, other light on the same picture: what a model must not go by.

A few breeds and floors can be drawn, but a farm has its own. So each batch is painted over: colours are mixed anew, one picture
in four loses them, light falls unevenly; and in three pictures of five the trunk, the floor and the rest each get blotches,
stripes or a grid, and a tint of their own. Sometimes animal and floor then have almost the same colour."""

from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np

from preparation import HEIGHT, WIDTH

REGIONS = 3  # the trunk, the floor that shows, everything else
PATTERNS = 2
PAINTED = 0.6


def repainting(count: int, rng: np.random.Generator, painted: float = PAINTED) -> dict[str, Any]:
    """The random numbers of one batch; `repainted` does the work where the network runs."""
    mixing = np.eye(3)[rng.permuted(np.tile(np.arange(3), (count, 1)), axis=1)]
    mixing = mixing + rng.normal(0.0, 0.15, (count, 3, 3))
    mixing[rng.random(count) < 0.25] = 1 / 3
    is_painted = (rng.random((count, 1)) < painted).astype(np.float32)
    angle = rng.uniform(0.0, np.pi, (count, REGIONS, PATTERNS))
    # Every second animal's stripes run along its body or across it, which lies along the crate.
    along = rng.choice((0.0, np.pi / 2), count) + rng.normal(0.0, 0.12, count)
    angle[:, 0, 0] = np.where(rng.random(count) < 0.5, along, angle[:, 0, 0])
    # Every second grid has a right angle, as floors have.
    angle[:, :, 1] = np.where(rng.random((count, REGIONS)) < 0.5, angle[:, :, 0] + np.pi / 2, angle[:, :, 1])
    waves = 1 / np.exp(rng.uniform(np.log(3.0), np.log(30.0), angle.shape))
    drawn = {
        "mixing": mixing * np.exp(rng.normal(0.0, 0.15, (count, 1, 1))),
        "uneven": np.exp(rng.normal(0.0, 0.08, (count, 5, 10, 3))),
        "curve": np.clip(rng.normal(0.0, 0.2, (count, 1, 1, 1)), -0.6, 0.6),
        "waves": np.stack([np.cos(angle) * waves, np.sin(angle) * waves, rng.uniform(0.0, 1.0, angle.shape)], 3),
        "depth": rng.normal(0.0, 0.22, angle.shape) * is_painted[:, :, None],
        "blotches": rng.normal(0.0, 1.0, (count, 6, 12, 1)),
        "blotch_depth": rng.normal(0.0, (0.45, 0.2, 0.1), (count, REGIONS)) * is_painted,
        "tints": rng.normal(0.0, 0.25, (count, REGIONS, 3)) * is_painted[:, :, None],
    }
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def repainted(batch: dict[str, Any]) -> Any:
    """From -1 to 1, as the network takes it."""
    pictures = batch["pictures"].astype(jnp.float32) / 255
    regions = _regions(batch["drawings"].astype(jnp.float32) / 255)
    blotches = jnp.tanh(6 * jax.image.resize(batch["blotches"], (len(pictures), HEIGHT, WIDTH, 1), "linear"))
    lightness = _stripes(regions, batch) + _of_region(regions, batch["blotch_depth"]) * blotches[..., 0]
    paint = jnp.exp(lightness[..., None] + jnp.einsum("nhwr,nrc->nhwc", regions, batch["tints"]))
    pictures = jnp.einsum("nhwc,nck->nhwk", pictures * paint, batch["mixing"])
    pictures = jnp.clip(pictures * jax.image.resize(batch["uneven"], pictures.shape, "linear"), 0, 1)
    return pictures * (1 + batch["curve"] * (1 - pictures)) * 2 - 1


def _regions(drawings: Any) -> Any:
    """Each pixel belongs to one: where two patterns were mixed, a dotted line would give the outline away."""
    trunk = drawings[:, 0] >= 0.5
    floor = (drawings[:, 1] >= 0.5) & ~trunk
    return jnp.stack([trunk, floor, ~(trunk | floor)], 3).astype(jnp.float32)


def _of_region(regions: Any, values: Any) -> Any:
    """One value for each region, laid out over the picture."""
    return jnp.einsum("nhwr,nr->nhw", regions, values)


def _stripes(regions: Any, batch: dict[str, Any]) -> Any:
    x, y = jnp.arange(WIDTH, dtype=jnp.float32), jnp.arange(HEIGHT, dtype=jnp.float32)
    total: Any = 0.0
    for index in range(PATTERNS):
        across, down, start = (_of_region(regions, batch["waves"][:, :, index, part]) for part in range(3))
        turns = x[None, None, :] * across + y[None, :, None] * down + start
        # Flat on top, with edges about a third of a stripe wide.
        wave = jnp.clip(6 * jnp.abs(turns - jnp.round(turns)) - 1.5, -1, 1)
        total = total + _of_region(regions, batch["depth"][:, :, index]) * wave
    return total
