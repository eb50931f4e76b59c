"""`inference.completed`: what the model says about a picture or a session."""

from typing import Annotated
from uuid import UUID

from msgspec import Meta, Struct

from farmiq.contracts.weighvision import WeightKg


class InferenceCompleted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    inference_result_id: UUID
    predicted_weight_kg: WeightKg
    confidence: Annotated[float, Meta(ge=0, le=1)]
    model_version: Annotated[str, Meta(min_length=1, max_length=128)]
    media_id: UUID | None = None
    predicted_size: Annotated[str, Meta(max_length=64)] | None = None
