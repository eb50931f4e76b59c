"""One step of Adam, with a falling pace and a mean over the last weights."""

from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only

MEAN_DECAY = 0.998


def moved(state: Any, slope: dict[str, Any], number: Any, rate: Any, decay: float) -> Any:
    """`state` is what is learned, Adam's two moments of it, and its mean."""
    learned, first, second, mean = state
    size = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(slope)))
    slope = jax.tree.map(lambda part: part * jnp.minimum(1.0, 5.0 / (size + 1e-6)), slope)
    first = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, first, slope)
    second = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, second, slope)
    first_share, second_share = 1 - 0.9 ** (number + 1), 1 - 0.999 ** (number + 1)

    def stepped(weight: Any, m: Any, v: Any) -> Any:
        return weight * (1 - rate * decay) - rate * (m / first_share) / (jnp.sqrt(v / second_share) + 1e-8)

    learned = jax.tree.map(stepped, learned, first, second)
    kept = jnp.minimum(MEAN_DECAY, (number + 1) / (number + 10))
    mean = jax.tree.map(lambda old, new: kept * old + (1 - kept) * new, mean, learned)
    return learned, first, second, mean


def pace(number: Any, steps: int) -> Any:
    warm = max(1, min(200, steps // 10))
    return jnp.minimum((number + 1) / warm, 1.0) * 0.5 * (1.01 + jnp.cos(jnp.pi * number / steps))
