"""What is worked out from finished drawings: the weight in closed form, spread and animal by many cheap steps."""

from typing import Any

import jax  # type: ignore[import-not-found]  # installed in .venv-training only
import jax.numpy as jnp  # type: ignore[import-not-found]  # installed in .venv-training only
import numpy as np
from numpy.typing import NDArray

import adam
from dataset import Dataset
from network import Weights, judged, predicting
from preparation import SEEN, Pictures

SPREAD_MIN = 0.012  # in the logarithm of the weight: no picture tells it better than to a hundredth
TIED = 1.0  # how hard a new polynomial is held to the one before, except for its constant: a few pictures can't find all of it
STEPS, BATCH, RATE, DECAY = 1500, 256, 1e-3, 1e-3
ENOUGH = 5000  # pictures to find the polynomial, the spread and the animal from: each is looked at four times


def predictions(plain: Weights, pictures: Pictures) -> NDArray[np.float32]:
    (numbers,) = seen_of(plain, pictures, "numbers")
    return numbers


def reweighed(plain: Weights, data: Dataset) -> Weights:
    """The polynomial that fits these pictures best, as the network draws them now."""
    chosen = np.flatnonzero(data.is_animal)[:ENOUGH]
    (features,) = seen_of(plain, data.pictures[chosen], "features")
    numbers = np.concatenate([features, np.ones((len(features), 1), np.float32)], 1).astype(np.float64)
    before = np.concatenate([plain["weight"][:, 0], plain["weight_shift"]]).astype(np.float64)
    held = TIED * np.eye(len(before))
    held[-1, -1] = 1e-9
    left = np.log(data.weights_kg[chosen]) - numbers @ before
    found = before + np.linalg.solve(numbers.T @ numbers + held, numbers.T @ left)
    return plain | {"weight": found[:-1, None].astype(np.float32), "weight_shift": found[-1:].astype(np.float32)}


def rejudged(plain: Weights, data: Dataset, seed: int) -> Weights:
    """Spread and animal from what the finished network sees, and from how far off its weights are."""
    data = data.first(ENOUGH)
    signs, numbers = seen_of(plain, data.pictures, "signs", "numbers")
    names = [f"{name}{part}" for name in ("judge", "verdict") for part in ("", "_shift")]
    learned: Weights = {name: plain[name] for name in names}
    run = jax.jit(_step)
    rng = np.random.default_rng([seed, 2])
    state: Any = (learned, *(jax.tree.map(np.zeros_like, learned) for _ in range(2)), learned)
    for number in range(STEPS):
        chosen = rng.integers(0, len(data), BATCH)
        batch = {"signs": signs[chosen], "weight": numbers[chosen, :1], "weights_kg": data.weights_kg[chosen]}
        state = run(state, np.float32(number), batch)
    return plain | {name: np.asarray(value, np.float32) for name, value in state[3].items()}


def _step(state: Any, number: Any, batch: dict[str, Any]) -> Any:
    def loss(learned: Weights) -> Any:
        told = judgement(jnp.concatenate([batch["weight"], judged(learned, batch["signs"])], 1), batch["weights_kg"])
        return told["weight"] * 10 + told["animal"]

    slope = jax.grad(loss)(state[0])
    return adam.moved(state, slope, number, RATE * adam.pace(number, STEPS), DECAY)


def seen_of(plain: Weights, pictures: Pictures, *names: str, batch: int = 100) -> list[NDArray[np.float32]]:
    run = jax.jit(lambda weights, some: [getattr(predicting(weights, some), name) for name in names])
    parts = [run(plain, scaled(pictures[first : first + batch, :, SEEN])) for first in range(0, len(pictures), batch)]
    return [np.concatenate([np.asarray(some) for some in found]) for found in zip(*parts, strict=True)]


def scaled(pictures: Pictures) -> NDArray[np.float32]:
    return pictures.astype(np.float32) / np.float32(127.5) - np.float32(1)


def judgement(numbers: Any, weights_kg: Any) -> dict[str, Any]:
    """How unlikely the true weight is under the prediction, and how wrongly animals and other pictures are told apart."""
    is_animal = weights_kg > 0
    spread = SPREAD_MIN + jnp.exp(jnp.clip(numbers[:, 1], -6.0, 1.0))
    error = numbers[:, 0] - jnp.log(jnp.where(is_animal, weights_kg, 1.0))
    # Weighted by the spread itself, or pictures that look easy would take all of the learning.
    unlikely = (0.5 * (error / spread) ** 2 + jnp.log(spread)) * jax.lax.stop_gradient(spread)
    return {
        "weight": mean_where(unlikely, is_animal),
        "error": mean_where(jnp.abs(error), is_animal),
        "animal": jnp.mean(jax.nn.softplus(jnp.where(is_animal, -numbers[:, 2], numbers[:, 2]))),
    }


def mean_where(values: Any, where: Any) -> Any:
    return jnp.sum(jnp.where(where, values, 0.0)) / jnp.maximum(jnp.sum(where), 1)
