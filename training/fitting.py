"""Learning: Adam over mirrored and recoloured pictures, with a falling step and a mean over the last weights."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np
from numpy.typing import NDArray

from dataset import Dataset
from network import COLUMNS, DRAWINGS, ROWS, SHRUNK, Seen, Weights, folded, fresh, learning, predicting
from preparation import HEIGHT, WIDTH, Pictures
from repainting import repainted, repainting

Forward = Callable[[Weights, Weights, jax.Array], tuple[Seen, Weights]]
SPREAD_MIN = 0.012  # in the logarithm of the weight: no picture tells it better than to a hundredth
MEAN_DECAY = 0.998
EARLY = 0.4  # share of the steps with batch normalisation
# The line around the trunk is the hardest to draw and counts most.
DRAWING_SHARES = np.array((0.6, 0.2, 0.2), np.float32)


@dataclass(frozen=True)
class Plan:
    steps: int
    batch: int = 32
    rate: float = 3e-3
    decay: float = 1e-4
    seed: int = 1


def from_nothing(data: Dataset, plan: Plan) -> Weights:
    """First with batch normalisation, which finds the way quickly. Then without it: the other pictures of a batch say
    nothing about a weight, and their noise would stay in it to the end."""
    mean = float(np.log(data.weights_kg[data.is_animal]).mean())
    learned, counted = fresh(plan.seed, mean)
    early = replace(plan, steps=round(plan.steps * EARLY))
    plain = folded(*_fit(learned, counted, learning, data, early))
    return from_known(
        plain, data, replace(plan, steps=plan.steps - early.steps, rate=plan.rate * 0.5, seed=plan.seed + 1)
    )


def from_known(plain: Weights, data: Dataset, plan: Plan) -> Weights:
    """Goes on from a finished model, whose normalisation is folded in: there is nothing left to count."""
    learned, _ = _fit(plain, {}, _plainly, data, plan)
    return {name: np.asarray(value, np.float32) for name, value in learned.items()}


def predictions(plain: Weights, pictures: Pictures, batch: int = 250) -> NDArray[np.float32]:
    run = jax.jit(lambda weights, part: predicting(weights, part).numbers)
    parts = [run(plain, scaled(pictures[first : first + batch])) for first in range(0, len(pictures), batch)]
    return np.concatenate([np.asarray(part) for part in parts])


def scaled(pictures: Pictures) -> NDArray[np.float32]:
    return pictures.astype(np.float32) / np.float32(127.5) - np.float32(1)


def _plainly(learned: Weights, counted: Weights, pictures: jax.Array) -> tuple[Seen, Weights]:
    return predicting(learned, pictures), counted


def _fit(learned: Weights, counted: Weights, forward: Forward, data: Dataset, plan: Plan) -> tuple[Weights, Weights]:
    rng = np.random.default_rng([plan.seed, 1])
    step = jax.jit(partial(_step, forward, plan))
    first, second = (jax.tree.map(np.zeros_like, learned) for _ in range(2))
    state, began = (learned, counted, first, second, learned), time.monotonic()
    order = _order(len(data), plan, rng)
    for number in range(plan.steps):
        chosen = order[number * plan.batch : (number + 1) * plan.batch]
        state, loss = step(state, np.float32(number), _varied(data, chosen, rng))
        if number % 100 == 99 or number + 1 == plan.steps:
            seconds = time.monotonic() - began
            told = ", ".join(f"{name} {float(value):.4f}" for name, value in loss.items())
            print(f"learned: step {number + 1} of {plan.steps}: {told}, {seconds:.0f} s", flush=True)
    return state[4], state[1]


def _order(count: int, plan: Plan, rng: np.random.Generator) -> NDArray[np.intp]:
    """Every picture once before any picture twice."""
    rounds = plan.steps * plan.batch // count + 1
    return np.concatenate([rng.permutation(count) for _ in range(rounds)])


def _varied(data: Dataset, chosen: NDArray[np.intp], rng: np.random.Generator) -> dict[str, Any]:
    """Mirrored, brighter or darker, in other colours and patterns: none of that changes the weight."""
    pictures, drawings = data.pictures[chosen], _drawings(data, chosen)
    for axis in (1, 2):
        mirrored = rng.random(len(chosen)) < 0.5
        pictures[mirrored] = np.flip(pictures[mirrored], axis)
        drawings[mirrored] = np.flip(drawings[mirrored], axis + 1)
    weights_kg = data.weights_kg[chosen]
    is_drawn = (weights_kg > 0) & (data.drawings is not None)
    batch = {"pictures": pictures, "weights_kg": weights_kg, "drawings": drawings, "is_drawn": is_drawn}
    return batch | repainting(len(chosen), rng)


def _drawings(data: Dataset, chosen: NDArray[np.intp]) -> NDArray[np.uint8]:
    if data.drawings is None:
        return np.zeros((len(chosen), DRAWINGS, HEIGHT, WIDTH), np.uint8)
    return data.drawings[chosen]


def _step(forward: Forward, plan: Plan, state: Any, number: Any, batch: dict[str, Any]) -> Any:
    learned, counted, first, second, mean = state
    slopes = jax.value_and_grad(partial(_loss, forward), has_aux=True)
    (_, (counted, told)), slope = slopes(learned, counted, batch)
    size = jnp.sqrt(sum(jnp.sum(part**2) for part in jax.tree.leaves(slope)))
    slope = jax.tree.map(lambda part: part * jnp.minimum(1.0, 5.0 / (size + 1e-6)), slope)
    rate = plan.rate * _pace(number, plan.steps)
    first = jax.tree.map(lambda old, new: 0.9 * old + 0.1 * new, first, slope)
    second = jax.tree.map(lambda old, new: 0.999 * old + 0.001 * new**2, second, slope)
    first_share, second_share = 1 - 0.9 ** (number + 1), 1 - 0.999 ** (number + 1)

    def moved(weight: Any, m: Any, v: Any) -> Any:
        return weight * (1 - rate * plan.decay) - rate * (m / first_share) / (jnp.sqrt(v / second_share) + 1e-8)

    learned = jax.tree.map(moved, learned, first, second)
    kept = jnp.minimum(MEAN_DECAY, (number + 1) / (number + 10))
    mean = jax.tree.map(lambda old, new: kept * old + (1 - kept) * new, mean, learned)
    return (learned, counted, first, second, mean), told


def _pace(number: Any, steps: int) -> Any:
    warm = max(1, min(200, steps // 10))
    return jnp.minimum((number + 1) / warm, 1.0) * 0.5 * (1.01 + jnp.cos(jnp.pi * number / steps))


def _loss(forward: Forward, learned: Weights, counted: Weights, batch: dict[str, Any]) -> Any:
    """How unlikely the true weight is under the prediction, how wrongly animals and other pictures are told apart, and how
    far the drawings are from what was drawn by rule."""
    seen, counted = forward(learned, counted, repainted(batch))
    is_animal = batch["weights_kg"] > 0
    spread = SPREAD_MIN + jnp.exp(jnp.clip(seen.numbers[:, 1], -6.0, 1.0))
    error = seen.numbers[:, 0] - jnp.log(jnp.where(is_animal, batch["weights_kg"], 1.0))
    unlikely = 0.5 * (error / spread) ** 2 + jnp.log(spread)
    # Weighted by the spread itself, or pictures that look easy would take all of the learning.
    unlikely = unlikely * jax.lax.stop_gradient(spread)
    score = seen.numbers[:, 2]
    cells = (
        batch["drawings"].astype(jnp.float32).reshape(-1, DRAWINGS, ROWS, SHRUNK, COLUMNS, SHRUNK).mean((3, 5)) / 255
    )
    drawn = jax.nn.softplus(seen.drawings) - cells * seen.drawings
    told = {
        "weight": _mean_where(unlikely, is_animal),
        "error": _mean_where(jnp.abs(error), is_animal),
        "animal": jnp.mean(jax.nn.softplus(jnp.where(is_animal, -score, score))),
        "drawing": _mean_where(jnp.mean(drawn, (2, 3)) @ DRAWING_SHARES, batch["is_drawn"]),
    }
    return told["weight"] * 10 + told["animal"] + told["drawing"] * 10, (counted, told)


def _mean_where(values: Any, where: Any) -> Any:
    return jnp.sum(jnp.where(where, values, 0.0)) / jnp.maximum(jnp.sum(where), 1)
