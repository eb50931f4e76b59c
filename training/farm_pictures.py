"""A farm's own pictures: a folder with `weights.csv`, which names each file and what the scale said.

    file,weight_kg,animal
    2026-03-01/0001.jpg,84.5,pig-17
    2026-03-01/empty.jpg,,

No weight means that the picture shows nothing to weigh. `animal` may be left out; where it is given, all pictures of one
animal go into the same part, because a model that has seen an animal knows it again and would look better than it is."""

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image, UnidentifiedImageError

from dataset import Dataset
from preparation import prepared

LIST = "weights.csv"
WEIGHED_MIN = 20
HEAVIEST_KG = 2000.0


class PicturesUnusable(Exception):
    """The folder can't be trained on; the message names the file and the line."""


@dataclass(frozen=True)
class Parts:
    training: Dataset
    validation: Dataset
    unseen: Dataset


@dataclass(frozen=True)
class _Line:
    path: Path
    weight_kg: float
    group: str


def read_folder(folder: Path) -> Parts:
    """About 70 % to learn from, 15 % to calibrate on, 15 % to be measured on."""
    lines = _lines(folder)
    if sum(line.weight_kg > 0 for line in lines) < WEIGHED_MIN:
        raise PicturesUnusable(f"{folder / LIST}: fewer than {WEIGHED_MIN} pictures with a weight")
    shares = np.array([_share(line.group) for line in lines])
    bounds = {"training": (0.0, 0.7), "validation": (0.7, 0.85), "unseen": (0.85, 1.0)}
    parts = {name: _loaded(lines, (low <= shares) & (shares < high)) for name, (low, high) in bounds.items()}
    for name, part in parts.items():
        if not part.is_animal.any():
            raise PicturesUnusable(f"{folder / LIST}: too few different animals, none was left over for {name}")
    return Parts(**parts)


def _lines(folder: Path) -> list[_Line]:
    try:
        with (folder / LIST).open(newline="", encoding="utf-8-sig") as file:
            rows = list(csv.DictReader(file))
    except OSError as error:
        raise PicturesUnusable(f"{folder / LIST}: {error.strerror}") from error
    return [_line(folder, row, number) for number, row in enumerate(rows, 2)]


def _line(folder: Path, row: dict[str, str | None], number: int) -> _Line:
    where = f"{folder / LIST}:{number}"
    name, weight = (row.get("file") or "").strip(), (row.get("weight_kg") or "").strip()
    path = (folder / name).resolve()
    if not name or not path.is_relative_to(folder.resolve()):
        raise PicturesUnusable(f"{where}: `file` must name a picture in this folder, not {name!r}")
    if not path.is_file():
        raise PicturesUnusable(f"{where}: there is no file {name}")
    try:
        weight_kg = float(weight) if weight else 0.0
    except ValueError as error:
        raise PicturesUnusable(f"{where}: weight_kg is not a number: {weight!r}") from error
    if weight and not 0 < weight_kg <= HEAVIEST_KG:
        raise PicturesUnusable(f"{where}: weight_kg must be above 0 and at most {HEAVIEST_KG:g}, not {weight}")
    return _Line(path, weight_kg, (row.get("animal") or "").strip() or name)


def _share(group: str) -> float:
    """The same animal falls into the same part in every run, whatever else is added to the list."""
    return int.from_bytes(hashlib.sha256(group.encode()).digest()[:6], "big") / 2**48


def _loaded(lines: list[_Line], chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Dataset:
    kept = [line for line, is_kept in zip(lines, chosen, strict=True) if is_kept]
    if not kept:
        return Dataset(np.zeros((0, 0, 0, 3), np.uint8), np.zeros(0, np.float32))
    return Dataset(
        np.stack([_picture(line.path) for line in kept]), np.array([line.weight_kg for line in kept], np.float32)
    )


def _picture(path: Path) -> np.ndarray[tuple[int, ...], np.dtype[np.uint8]]:
    try:
        with Image.open(path) as image:
            return prepared(image)
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError) as error:
        raise PicturesUnusable(f"{path}: not a picture that can be read: {error}") from error
