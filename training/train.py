"""Trains the weight model and writes it with its card.

    make train                                                  on rendered pictures: the model that is in the repository
    .venv-training/bin/python training/train.py --pictures FOLDER --version barn7-v1    on a farm's own

docs/guides/train-a-model.md says how to take the pictures, docs/reference/weight-model.md what comes out."""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from calibration import Calibration, calibrated, judged
from card import card
from dataset import Dataset, rendered
from evaluation import Figures, figures
from export import ExportDiffers, graph, read_weights, write
from farm_pictures import PicturesUnusable, read_folder
from farmiq.sim.scenes import TRAINING, UNSEEN, VALIDATION
from fitting import Plan, from_known, from_nothing
from network import Weights
from unfinished import Unfinished
from weighing import predictions

ROOT = Path(__file__).resolve().parent.parent
SCRATCH = ROOT / ".training"
PACKAGED = ROOT / "src" / "farmiq" / "edge" / "vision_inference" / "models"
RENDERED_VERSION = "weighvision-v1.3.0"
RENDERED_STEPS = 16_000
RENDERED_RANGE_KG = (18.0, 135.0)
RENDERED_LIMITS = (
    "Learned from rendered pictures of pigs only, in a crate 0.60 m wide inside with walls 0.90 m high, seen from straight "
    "above. It weighs the simulated farm. A real farm needs a model trained on its own pictures."
)
FARM_LIMITS = (
    "Learned from one farm's pictures: for the same crate, camera, breed and range of weights. "
    "Anywhere else it has to be measured again."
)


class RenderedModelMissing(Exception):
    """The model that a farm's training starts from is not in this checkout."""


@dataclass(frozen=True)
class Material:
    training: Dataset
    validation: Dataset
    unseen: Dataset
    range_kg: tuple[float, float]
    limits: str
    source: str


def main() -> int:
    options = _options()
    try:
        material = _folder(options.pictures) if options.pictures else _rendered(options)
        plain = _learned(material, options)
        _finish(plain, material, options)
    except (PicturesUnusable, ExportDiffers, RenderedModelMissing) as error:
        print(f"train: {error}", file=sys.stderr)
        return 1
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Trains the weight model and writes it with its card.")
    parser.add_argument(
        "--pictures", type=Path, metavar="FOLDER", help="a folder of pictures with weights.csv; else rendered ones"
    )
    parser.add_argument("--version", help=f"name of the model ({RENDERED_VERSION} unless --pictures is given)")
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="where the model and its card go")
    parser.add_argument(
        "--from-scratch", action="store_true", help="with --pictures: don't start from the rendered model"
    )
    parser.add_argument("--count", type=int, default=32_000, help="rendered pictures to learn from")
    parser.add_argument(
        "--steps", type=int, help=f"batches to learn from ({RENDERED_STEPS} rendered, 1500 with --pictures)"
    )
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.pictures and not options.version:
        parser.error("--pictures needs --version: results carry the name of the model that made them")
    options.version = options.version or RENDERED_VERSION
    options.steps = options.steps or (1500 if options.pictures else RENDERED_STEPS)
    options.out = options.out or (SCRATCH / "models" if options.pictures else PACKAGED)
    return options


def _rendered(options: argparse.Namespace) -> Material:
    few = max(500, min(2000, options.count // 7))
    return Material(
        training=rendered(TRAINING, options.count, SCRATCH),
        validation=rendered(VALIDATION, few, SCRATCH),
        unseen=rendered(UNSEEN, few, SCRATCH),
        range_kg=RENDERED_RANGE_KG,
        limits=RENDERED_LIMITS,
        source="rendered",
    )


def _folder(folder: Path) -> Material:
    parts = read_folder(folder)
    weights = parts.training.weights_kg[parts.training.is_animal]
    range_kg = (round(float(weights.min()), 1), round(float(weights.max()), 1))
    if parts.training.is_animal.all():
        print("train: no picture without an animal was given, so the model can't learn to say that there is none")
    return Material(parts.training, parts.validation, parts.unseen, range_kg, FARM_LIMITS, "pictures of a farm")


def _learned(material: Material, options: argparse.Namespace) -> Weights:
    if not options.pictures or options.from_scratch:
        plan = Plan(steps=options.steps, seed=options.seed)
        unfinished = Unfinished(SCRATCH / "unfinished.npz", f"{options.version} {len(material.training)} {plan}")
        return from_nothing(material.training, plan, unfinished)
    path = PACKAGED / f"{RENDERED_VERSION}.onnx"
    if not path.exists():
        raise RenderedModelMissing(
            f"there is no {path.name} to start from: make train makes it, --from-scratch does without"
        )
    known = read_weights(path)
    batch = min(Plan.batch, len(material.training))
    return from_known(known, material.training, Plan(steps=options.steps, batch=batch, rate=4e-4, seed=options.seed))


def _finish(plain: Weights, material: Material, options: argparse.Namespace) -> None:
    calibration = calibrated(predictions(plain, material.validation.pictures), material.validation)
    found = {name: _measured(plain, calibration, part) for name, part in _parts(material).items()}
    stated = card(options.version, material.range_kg, _told(material, options), calibration, found, material.limits)
    for name, figure in found.items():
        print(f"measured: {name}: {figure}")
    sample = material.unseen.pictures[:200]
    expected = judged(predictions(plain, sample), calibration)
    write(graph(plain, calibration), stated, sample, expected, options.out / f"{options.version}.onnx")
    Unfinished(SCRATCH / "unfinished.npz", "").forget()


def _parts(material: Material) -> dict[str, Dataset]:
    return {"validation": material.validation, "unseen": material.unseen}


def _measured(plain: Weights, calibration: Calibration, data: Dataset) -> Figures:
    """Within the range that the card states: beyond it the model is not to be believed anyway."""
    return figures(judged(predictions(plain, data.pictures), calibration), data)


def _told(material: Material, options: argparse.Namespace) -> dict[str, Any]:
    return {
        "source": material.source,
        "pictures": len(material.training),
        "without_animal": int(np.sum(~material.training.is_animal)),
        "steps": options.steps,
        "seed": options.seed,
    }


if __name__ == "__main__":
    sys.exit(main())
