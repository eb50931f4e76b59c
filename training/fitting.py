"""Learning to draw, from mirrored and repainted pictures. It takes nearly all of the time; `weighing` does the rest."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np
from numpy.typing import NDArray

import adam
from dataset import Dataset
from network import (
    BANDS,
    COLUMNS,
    DRAWINGS,
    ROWS,
    SHRUNK,
    Seen,
    Weights,
    folded,
    fresh,
    learning,
    measured,
    relearning,
)
from preparation import HEIGHT, SEEN, WIDTH
from repainting import repainted, repainting
from unfinished import Unfinished
from weighing import judgement, mean_where, rejudged, reweighed

Forward = Callable[[Weights, Weights, jax.Array], tuple[Seen, Weights]]
# The line around the trunk is the hardest to draw and counts most.
DRAWING_SHARES = np.array((0.6, 0.2, 0.2), np.float32)
# By how much an error in each measure moves the weight: its area, then each band of the floor and of the opening.
MEASURE_SHARES = np.array((1.0, *BANDS * (2.0 / BANDS,), *BANDS * (0.5 / BANDS,)), np.float32)


@dataclass(frozen=True)
class Plan:
    steps: int
    batch: int = 16
    rate: float = 2.5e-3
    decay: float = 1e-4
    seed: int = 1


def from_nothing(data: Dataset, plan: Plan, unfinished: Unfinished | None = None) -> Weights:
    """With batch normalisation, which finds the way quickly and is folded in at the end."""
    mean = float(np.log(data.weights_kg[data.is_animal]).mean())
    plain = folded(*_fit(*fresh(plan.seed, mean), learning, data, plan, unfinished))
    return rejudged(reweighed(plain, data), data, plan.seed)


def from_known(plain: Weights, data: Dataset, plan: Plan) -> Weights:
    """Goes on from a finished model, whose normalisation is folded in: there is nothing left to count."""
    learned, _ = _fit(reweighed(plain, data), {}, _plainly, data, plan)
    learned = reweighed({name: np.asarray(value, np.float32) for name, value in learned.items()}, data)
    # Pictures of a farm are too few for it: there the verdict goes on from the one that it knows.
    return rejudged(learned, data, plan.seed) if data.drawings is not None else learned


def _plainly(learned: Weights, counted: Weights, pictures: jax.Array) -> tuple[Seen, Weights]:
    return relearning(learned, pictures), counted


def _fit(
    learned: Weights,
    counted: Weights,
    forward: Forward,
    data: Dataset,
    plan: Plan,
    unfinished: Unfinished | None = None,
) -> tuple[Weights, Weights]:
    step = jax.jit(partial(_step, forward, plan))
    first, second = (jax.tree.map(np.zeros_like, learned) for _ in range(2))
    state, began, done = (learned, counted, first, second, learned), time.monotonic(), 0
    if unfinished is not None and (kept := unfinished.read()) is not None:
        state, done = kept
    order = _order(len(data), plan, np.random.default_rng([plan.seed, 1]))
    for number in range(done, plan.steps):
        chosen = order[number * plan.batch : (number + 1) * plan.batch]
        # Drawn from the number of the step: a run that goes on later draws what it would have drawn.
        batch = _varied(data, chosen, np.random.default_rng([plan.seed, 3, number]))
        state, loss = step(state, np.float32(number), batch)
        if number % 100 == 99 or number + 1 == plan.steps:
            seconds = time.monotonic() - began
            told = ", ".join(f"{name} {float(value):.4f}" for name, value in loss.items())
            print(f"learned: step {number + 1} of {plan.steps}: {told}, {seconds:.0f} s", flush=True)
            if unfinished is not None:
                unfinished.keep(state, number + 1)
    return state[4], state[1]


def _order(count: int, plan: Plan, rng: np.random.Generator) -> NDArray[np.intp]:
    """Every picture once before any picture twice."""
    rounds = plan.steps * plan.batch // count + 1
    return np.concatenate([rng.permutation(count) for _ in range(rounds)])


def _varied(data: Dataset, chosen: NDArray[np.intp], rng: np.random.Generator) -> dict[str, Any]:
    """Mirrored, brighter or darker, in other colours: none of that changes the weight."""
    pictures, drawings = data.pictures[chosen][:, :, SEEN], _drawings(data, chosen)[..., SEEN]
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
    rate = plan.rate * adam.pace(number, plan.steps)
    learned, first, second, mean = adam.moved((learned, first, second, mean), slope, number, rate, plan.decay)
    return (learned, counted, first, second, mean), told


def _loss(forward: Forward, learned: Weights, counted: Weights, batch: dict[str, Any]) -> Any:
    """How far the drawings and their measures are from what was drawn by rule, and how good the judgement is. Where nothing
    was drawn by rule, the weight is all that there is to learn from."""
    seen, counted = forward(learned, counted, repainted(batch))
    cells = (
        batch["drawings"].astype(jnp.float32).reshape(-1, DRAWINGS, ROWS, SHRUNK, COLUMNS, SHRUNK).mean((3, 5)) / 255
    )
    drawn = jax.nn.softplus(seen.drawings) - cells * seen.drawings
    off = jnp.abs(measured(jax.nn.sigmoid(seen.drawings)) - measured(cells))
    told = judgement(seen.numbers, batch["weights_kg"]) | {
        "drawing": mean_where(jnp.mean(drawn, (2, 3)) @ DRAWING_SHARES, batch["is_drawn"]),
        "measures": mean_where(off @ MEASURE_SHARES, batch["is_drawn"]),
    }
    share = jnp.where(jnp.any(batch["is_drawn"]), 1.0, 10.0)
    return told["weight"] * share + told["animal"] * 0.3 + told["drawing"] * 20 + told["measures"] * 2, (counted, told)
