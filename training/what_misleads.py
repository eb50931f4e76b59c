"""Which part of the unseen scenes the packaged model fails on: the same scenes once more with one part taken from training.

.venv-training/bin/python training/what_misleads.py"""

import argparse
from dataclasses import replace

import numpy as np

from dataset import RENDER_SIZE
from export import answers
from farmiq.sim.samples import weighed
from farmiq.sim.scenes import TRAINING, UNSEEN, Family
from preparation import prepared
from train import PACKAGED, RENDERED_VERSION

FIRST_SEED = 70_000_000
AT_ONCE = 50
FAMILIES = {
    "unseen": UNSEEN,
    "unseen, coats of training": replace(UNSEEN, coats=TRAINING.coats),
    "unseen, floors of training": replace(UNSEEN, floors=TRAINING.floors),
    "training, nothing made up": replace(TRAINING, invented=0.0),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500, help="pictures of each")
    count: int = parser.parse_args().count
    content = (PACKAGED / f"{RENDERED_VERSION}.onnx").read_bytes()
    for name, family in FAMILIES.items():
        error = _errors(content, family, count)
        print(f"{name}: MAPE {np.abs(error).mean():.2%}, bias {error.mean():.2%}", flush=True)


def _errors(content: bytes, family: Family, count: int) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    errors = []
    for first in range(FIRST_SEED, FIRST_SEED + count, AT_ONCE):
        samples = [weighed(family, seed, size=RENDER_SIZE) for seed in range(first, first + AT_ONCE)]
        said = answers(content, np.stack([prepared(sample.image) for sample in samples]))["weight_kg"]
        errors += [float(kg) / (sample.weight_kg or 0.0) - 1 for kg, sample in zip(said, samples, strict=True)]
    return np.array(errors)


if __name__ == "__main__":
    main()
