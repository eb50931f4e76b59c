"""Other colours, other patterns, other light on the same picture: what a model must not go by.

A few breeds and floors can be drawn, but a farm has its own. So each batch is painted over: colours are mixed anew, one picture
in four loses them, light falls unevenly; and in every second picture the trunk gets blotches and a tint of its own, and
everything around it stripes, a grid, and another tint. Sometimes animal and floor then have almost the same colour."""

from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np

from preparation import HEIGHT, WIDTH

PATTERNS = 2


def repainting(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """The random numbers of one batch; `repainted` does the work where the network runs."""
    mixing = np.eye(3)[rng.permuted(np.tile(np.arange(3), (count, 1)), axis=1)]
    mixing = mixing + rng.normal(0.0, 0.15, (count, 3, 3))
    mixing[rng.random(count) < 0.25] = 1 / 3
    is_painted = (rng.random((count, 1, 1, 1)) < 0.5).astype(np.float32)
    angle = rng.uniform(0.0, np.pi, (count, PATTERNS))
    waves = 2 * np.pi / rng.uniform(3.0, 24.0, (count, PATTERNS))
    drawn = {
        "mixing": mixing * np.exp(rng.normal(0.0, 0.15, (count, 1, 1))),
        "uneven": np.exp(rng.normal(0.0, 0.08, (count, 5, 10, 3))),
        "gamma": np.exp(rng.normal(0.0, 0.15, (count, 1, 1, 1))),
        "waves": np.stack([np.cos(angle) * waves, np.sin(angle) * waves, rng.uniform(0.0, 2 * np.pi, angle.shape)], 2),
        "depth": rng.normal(0.0, 0.25, (count, PATTERNS)) * is_painted[..., 0, 0],
        "blotches": rng.normal(0.0, 1.0, (count, 6, 12, 1)),
        "blotch_depth": rng.normal(0.0, 0.5, (count, 1, 1, 1)) * is_painted,
        "trunk_tint": rng.normal(0.0, 0.25, (count, 1, 1, 3)) * is_painted,
        "other_tint": rng.normal(0.0, 0.25, (count, 1, 1, 3)) * is_painted,
    }
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def repainted(batch: dict[str, Any]) -> Any:
    """From -1 to 1, as the network takes it."""
    pictures = batch["pictures"].astype(jnp.float32) / 255
    trunk = batch["drawings"][:, 0, :, :, None].astype(jnp.float32) / 255
    around = batch["other_tint"] + _stripes(batch["waves"], batch["depth"])
    blotches = jax.image.resize(batch["blotches"], (len(pictures), HEIGHT, WIDTH, 1), "linear")
    on_trunk = batch["trunk_tint"] + batch["blotch_depth"] * jnp.tanh(6 * blotches)
    pictures = pictures * jnp.exp(around + trunk * (on_trunk - around))
    pictures = jnp.einsum("nhwc,nck->nhwk", pictures, batch["mixing"])
    pictures = pictures * jax.image.resize(batch["uneven"], pictures.shape, "linear")
    return jnp.clip(pictures, 1e-4, 1) ** batch["gamma"] * 2 - 1


def _stripes(waves: Any, depth: Any) -> Any:
    x, y = jnp.arange(WIDTH, dtype=jnp.float32), jnp.arange(HEIGHT, dtype=jnp.float32)
    total: Any = 0.0
    for index in range(PATTERNS):
        across, down, start = (waves[:, index, part][:, None, None] for part in range(3))
        wave = jnp.sin(x[None, None, :] * across + y[None, :, None] * down + start)
        total = total + depth[:, index][:, None, None] * jnp.tanh(4 * wave)
    return total[..., None]
