"""What a model said of a picture, once it is known to be something that can be said."""

import math
from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from farmiq.edge.vision_inference.card import SIZE_OUTPUT
from farmiq.kit.errors import FarmiqError

WEIGHT_KG_MAX: Final = 100_000.0
SIZE_LENGTH_MAX: Final = 64
ROUNDING: Final = 1e-3
"""A probability that is worked out in 32 bits may end a little above 1."""


class AnswerUnusable(FarmiqError):
    """The model gave a number that is no weight or no confidence."""

    code = "answer_unusable"


class Seen(Struct, frozen=True):
    weight_kg: float
    confidence: float
    size: str | None = None


def seen_of(answers: Mapping[str, float | str]) -> Seen:
    weight_kg = _number(answers, "weight_kg", WEIGHT_KG_MAX)
    confidence = _number(answers, "confidence", 1.0 + ROUNDING, -ROUNDING)
    size = answers.get(SIZE_OUTPUT)
    if size is not None and not (isinstance(size, str) and len(size) <= SIZE_LENGTH_MAX and size.isprintable()):
        raise AnswerUnusable(f"{SIZE_OUTPUT} is no short text")
    return Seen(weight_kg, min(max(confidence, 0.0), 1.0), size or None)


def _number(answers: Mapping[str, float | str], name: str, most: float, least: float = 0.0) -> float:
    value = answers.get(name)
    if not isinstance(value, float) or not math.isfinite(value) or not least <= value <= most:
        raise AnswerUnusable(f"{name} is {value!r}")
    return value
