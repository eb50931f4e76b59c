"""The figures in docs/reference/weight-model.md are those of the card beside the model."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from farmiq.edge.vision_inference.sources import packaged_model

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "reference" / "weight-model.md").read_text(encoding="utf-8")
CARD: dict[str, Any] = json.loads(packaged_model().with_suffix(".json").read_text(encoding="utf-8"))
ROWS = {
    "mean absolute error, kg": "mae_kg",
    "mean absolute percentage error (MAPE)": "mape_percent",
    "bias": "bias_percent",
    "within 10 %": "within_tolerance_percent",
    "animals with a confidence of 0.8 or more": "confident_percent",
    "MAPE of those": "mape_percent_when_confident",
    "pictures with nothing to weigh that got 0.5 or more": "misfires_confident_percent",
}


def numbers(row: str) -> list[float]:
    return [float(cell.removesuffix(" %")) for cell in row.strip("| ").split(" | ")[1:]]


@pytest.mark.parametrize(("title", "figure"), ROWS.items())
def test_a_row_of_the_page_has_the_figures_of_the_card(title: str, figure: str) -> None:
    (row,) = re.findall(rf"^\| {re.escape(title)} \|.*$", PAGE, re.MULTILINE)
    assert numbers(row) == [CARD["figures"][family][figure] for family in ("validation", "unseen")]


def test_the_reliability_of_the_page_is_that_of_the_card() -> None:
    shown = [numbers(row) for row in re.findall(r"^\| 0\.\d+\W[\d.]+ \|.*$", PAGE, re.MULTILINE)]
    told = [[row["pictures"], row["promised"], row["came_true"]] for row in CARD["figures"]["unseen"]["reliability"]]
    assert shown == told
    errors = [CARD["figures"][family]["calibration_error"] for family in ("unseen", "validation")]
    assert f"weighted by pictures, is {errors[0]}; on the validation family {errors[1]}." in PAGE


def test_the_page_names_the_model_its_size_and_its_training() -> None:
    assert f"the model `{CARD['model_version']}` (ONNX, {CARD['bytes']:,} bytes)" in PAGE
    training = CARD["training"]
    assert f"seed {training['seed']}, {training['steps']:,} steps of 16 pictures" in PAGE
    assert f"| pictures | {training['pictures']:,} |" in PAGE
