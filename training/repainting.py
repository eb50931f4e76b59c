"""Other colours and other light on the same picture: what a model must not go by.

Coats and floors are varied where pictures are drawn (`farmiq.sim.coats.invented`); this is what a camera adds to it. Colours are
mixed anew, one picture in four loses them, light falls unevenly, and the curve from light to brightness bends."""

from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np

COLOURLESS = 0.25


def repainting(count: int, rng: np.random.Generator) -> dict[str, Any]:
    """The random numbers of one batch; `repainted` does the work where the network runs."""
    mixing = np.eye(3)[rng.permuted(np.tile(np.arange(3), (count, 1)), axis=1)]
    mixing = mixing + rng.normal(0.0, 0.15, (count, 3, 3))
    mixing[rng.random(count) < COLOURLESS] = 1 / 3
    drawn = {
        "mixing": mixing * np.exp(rng.normal(0.0, 0.15, (count, 1, 1))),
        "uneven": np.exp(rng.normal(0.0, 0.08, (count, 5, 10, 3))),
        "curve": np.clip(rng.normal(0.0, 0.2, (count, 1, 1, 1)), -0.6, 0.6),
    }
    return {name: value.astype(np.float32) for name, value in drawn.items()}


def repainted(batch: dict[str, Any]) -> Any:
    """From -1 to 1, as the network takes it."""
    pictures = jnp.einsum("nhwc,nck->nhwk", batch["pictures"].astype(jnp.float32) / 255, batch["mixing"])
    pictures = jnp.clip(pictures * jax.image.resize(batch["uneven"], pictures.shape, "linear"), 0, 1)
    return pictures * (1 + batch["curve"] * (1 - pictures)) * 2 - 1
