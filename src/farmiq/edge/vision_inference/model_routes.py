"""Models: which there are, and putting one to work."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from litestar import get, post
from litestar.params import JSONBody
from msgspec import Meta, Struct

from farmiq.edge.vision_inference import model_store
from farmiq.edge.vision_inference.at_work import Models
from farmiq.edge.vision_inference.card import ModelRefused, ModelVersion
from farmiq.edge.vision_inference.model_store import Registered
from farmiq.edge.vision_inference.sources import ModelMissing
from farmiq.kit.http_server import ApiError
from farmiq.kit.postgres import Pool
from farmiq.kit.tenant_reads import ALL_TENANTS, read_as
from farmiq.outbox.wakeup import Wakeup
from farmiq.timeseries.asking import asking

SHOWN_MAX = 200

StoreUrl = Annotated[
    str,
    Meta(
        pattern=r"^s3://[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]/[!-~]{1,900}\.onnx$(?!\n)",
        description="s3://bucket/key.onnx; the card is beside it as key.json",
    ),
]


class ModelView(Struct, frozen=True, kw_only=True):
    """`is_active`: to be at work. `is_loaded`: at work in the replica that answers."""

    model_version: str
    generation: int
    is_active: bool
    is_loaded: bool
    source: str
    sha256: str
    size_bytes: int
    registered_at: datetime
    activated_at: datetime
    card: dict[str, Any]


class ModelList(Struct, frozen=True):
    models: list[ModelView]


class ActivateRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model in the object store, or the version of one that was at work before. With both, the model must have that version."""

    source: StoreUrl | None = None
    model_version: ModelVersion | None = None


def model_routes(pool: Pool, models: Models, guards: list[Any], wakeup: Wakeup) -> list[Any]:
    def view(registered: Registered, newest: Registered) -> ModelView:
        own = {"is_active", "is_loaded", "card"}
        plain = {name: getattr(registered, name) for name in ModelView.__struct_fields__ if name not in own}
        return ModelView(
            is_active=registered.generation == newest.generation,
            is_loaded=models.at_work is not None and models.at_work.version == registered.model_version,
            card=msgspec.json.decode(registered.card),
            **plain,
        )

    @get("/api/v1/inference/models", guards=guards, tags=["models"])
    async def registered() -> ModelList:
        """Models that were put to work here, the newest first, each with its card."""
        async with read_as(pool, ALL_TENANTS) as connection:
            found = await model_store.newest_first(connection, SHOWN_MAX)
        return ModelList([view(one, found[0]) for one in found])

    @post("/api/v1/inference/models/activate", guards=guards, tags=["models"], status_code=200)
    async def activate(data: JSONBody[ActivateRequest]) -> ModelView:
        """Load a model, try it on a picture, and put it to work in place of the one before.

        422 with the reason when it does not work, 404 when there is none, 503 when the object store is away: the one before then
        goes on. Pictures that were looked at before are not looked at again by themselves: `POST /api/v1/inference/jobs` has
        that done.
        """
        source = data.source or await _source_of(pool, data.model_version)
        try:
            active = await models.activate(source, data.model_version)
        except ModelRefused as error:
            raise ApiError(422, error.code, str(error)) from error
        except ModelMissing as error:
            raise ApiError(404, error.code, str(error)) from error
        wakeup.poke()
        return view(active, active)

    return [registered, activate]


async def _source_of(pool: Pool, model_version: str | None) -> str:
    if model_version is None:
        raise ApiError(400, "invalid_request", "Give `source` or `model_version`")
    async with asking(pool) as connection:
        known = await model_store.of_version(connection, model_version)
    if known is None:
        raise ApiError(404, "unknown_model", f"{model_version} was never at work here: give its `source`")
    return known.source
