"""The model that comes with FarmIQ, as the service uses it. How good it is, is measured in training and stated in its card."""

import io

import numpy as np
import onnxruntime  # type: ignore[import-untyped]  # ships no types
import pytest
from PIL import Image, ImageOps

from farmiq.edge.vision_inference.engine import Engine, Limits
from farmiq.edge.vision_inference.sources import PACKAGED, packaged_model, read_model
from farmiq.sim.pictures import jpeg
from farmiq.sim.samples import weighed
from farmiq.sim.scenes import UNSEEN
from support.media_world import objects_of
from support.s3 import S3


async def test_the_service_says_what_the_model_says_when_its_card_is_followed_by_hand(s3: S3) -> None:
    model = await read_model(PACKAGED, objects_of(s3), 3_000_000)
    pictures = [jpeg(weighed(UNSEEN, seed).image) for seed in range(700, 703)]
    engine = Engine(model, Limits())
    try:
        seen = [await engine.look_at(data) for data in pictures]
    finally:
        await engine.close()
    size = (model.card.input.width, model.card.input.height)
    by_hand = np.stack(
        [
            np.asarray(ImageOps.fit(Image.open(io.BytesIO(data)).convert("RGB"), size, Image.Resampling.BOX))
            for data in pictures
        ]
    )
    session = onnxruntime.InferenceSession(packaged_model(), providers=["CPUExecutionProvider"])
    weights, confidences = session.run(["weight_kg", "confidence"], {model.card.input.name: by_hand})
    assert [one.weight_kg for one in seen] == pytest.approx(weights.tolist(), rel=1e-4)
    assert [one.confidence for one in seen] == pytest.approx(confidences.tolist(), abs=1e-4)
