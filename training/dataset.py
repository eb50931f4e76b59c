"""Pictures with their weights: rendered ones, kept on disk once made, or a folder of a farm's own."""

import hashlib
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import farmiq.sim
from farmiq.sim.samples import misfired, traced, weighed, weighing
from farmiq.sim.scenes import TRAINING, UNSEEN, VALIDATION, Family
from preparation import HEIGHT, WIDTH, Pictures, prepared

SHARD = 500
# Rendered at twice the model's size and averaged down, which costs a sixth of a full picture and looks the same to the model.
RENDER_SIZE = (WIDTH * 2, HEIGHT * 2)
MISFIRES_IN = 7  # every seventh picture shows nothing to weigh
DRAWN_BY = (
    "animals", "coats", "fences", "figure", "ground", "misfires", "pictures", "samples", "scenes", "skin", "solids", "views",
)  # fmt: skip
FIRST_SEED = {TRAINING.name: 10_000_000, VALIDATION.name: 20_000_000, UNSEEN.name: 30_000_000}


@dataclass(frozen=True)
class Dataset:
    pictures: Pictures
    weights_kg: NDArray[np.float32]  # 0: nothing that could be weighed
    drawings: NDArray[np.uint8] | None = None  # number x 3 x height x width, 0 to 255; only rendered pictures have them

    def __len__(self) -> int:
        return len(self.weights_kg)

    @property
    def is_animal(self) -> NDArray[np.bool_]:
        return self.weights_kg > 0

    def first(self, count: int) -> "Dataset":
        drawings = None if self.drawings is None else self.drawings[:count]
        return Dataset(self.pictures[:count], self.weights_kg[:count], drawings)


def rendered(family: Family, count: int, cache: Path) -> Dataset:
    """The first `count` pictures of the family. More of them later begin with the same ones."""
    shards = []
    firsts = range(FIRST_SEED[family.name], FIRST_SEED[family.name] + count, SHARD)
    with ProcessPoolExecutor() as painters:
        for path in painters.map(partial(_stored, cache, family), firsts):
            with np.load(path) as kept:
                shards.append([kept[name] for name in ("pictures", "weights_kg", "drawings")])
            print(f"rendered: {family.name} {min(len(shards) * SHARD, count)} of {count}", flush=True)
    return Dataset(*(np.concatenate(parts) for parts in zip(*shards, strict=True))).first(count)


def _stored(cache: Path, family: Family, first_seed: int) -> Path:
    path = cache / f"{family.name}-{first_seed}-{_recipe()}.npz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        seeds = range(first_seed, first_seed + SHARD)
        # Renamed when whole: a run that is stopped leaves no half of a file behind under the name that counts.
        half_written = path.with_suffix(".part.npz")
        np.savez(half_written, **_render(family, seeds), **_trace(family, seeds))
        half_written.replace(path)
    return path


def _render(family: Family, seeds: range) -> dict[str, Any]:
    samples = [
        misfired(family, seed, size=RENDER_SIZE) if _misfires(seed) else weighed(family, seed, size=RENDER_SIZE)
        for seed in seeds
    ]
    weights = np.array([sample.weight_kg or 0.0 for sample in samples], np.float32)
    return {"pictures": np.stack([prepared(sample.image) for sample in samples]), "weights_kg": weights}


def _trace(family: Family, seeds: range) -> dict[str, Any]:
    nothing = np.zeros((3, HEIGHT, WIDTH), np.uint8)
    return {"drawings": np.stack([nothing if _misfires(seed) else _drawings(family, seed) for seed in seeds])}


def _drawings(family: Family, seed: int) -> NDArray[np.uint8]:
    return np.asarray(np.round(traced(weighing(family, seed), (WIDTH, HEIGHT)) * 255), np.uint8)


def _misfires(seed: int) -> bool:
    return seed % MISFIRES_IN == 0


def _recipe() -> str:
    """Changes with the code that draws, so that old pictures are never taken for new ones."""
    digest = hashlib.sha256(f"{RENDER_SIZE} {SHARD} {MISFIRES_IN}".encode())
    for name in DRAWN_BY:
        digest.update((Path(farmiq.sim.__file__).parent / f"{name}.py").read_bytes())
    return digest.hexdigest()[:12]
