"""The card beside a model: all that a program needs to use it, and all that a person needs to trust it or not."""

from typing import Any

from calibration import TOLERANCE, Calibration
from evaluation import Figures
from export import IR_VERSION, OPSET
from preparation import HEIGHT, WIDTH

OUTPUTS = {
    "weight_kg": "the weight that the true one is as likely to be above as below",
    "spread_kg": "one standard deviation of the weight",
    "animal": "probability that the picture shows one whole animal on the scale",
    "confidence": f"probability that it does and that the true weight lies within {TOLERANCE:.0%} of weight_kg",
}


def card(
    version: str,
    weight_kg_range: tuple[float, float],
    training: dict[str, Any],
    calibration: Calibration,
    figures: dict[str, Figures],
    limits: str,
) -> dict[str, Any]:
    return {
        "card_version": 1,
        "model_version": version,
        "format": {"name": "onnx", "opset": OPSET, "ir_version": IR_VERSION},
        "input": {
            "name": "picture",
            "type": "uint8",
            "shape": ["number", HEIGHT, WIDTH, 3],
            "layout": "NHWC",
            "colour": "RGB",
            "scale": "0 to 255 as decoded; the graph does the rest",
            "width": WIDTH,
            "height": HEIGHT,
            "preparation": [
                "turn the picture as its EXIF orientation says",
                "convert it to RGB",
                f"cut it around its middle to the ratio {WIDTH}:{HEIGHT}",
                f"average it down to {WIDTH} x {HEIGHT} with a box filter",
            ],
            "pillow": f"ImageOps.fit(ImageOps.exif_transpose(image).convert('RGB'), ({WIDTH}, {HEIGHT}), Image.Resampling.BOX)",
        },
        "outputs": {name: {"type": "float32", "shape": ["number"], "means": means} for name, means in OUTPUTS.items()},
        "confidence": {"tolerance": TOLERANCE, "calibrated_on": "validation", **vars(calibration)},
        "weight_kg_range": {"min": weight_kg_range[0], "max": weight_kg_range[1]},
        "training": training,
        "figures": {name: found.as_json() for name, found in figures.items()},
        "limits": limits,
    }
