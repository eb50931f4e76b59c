"""The model at work, and how another takes its place.

What is to be at work is the registered model with the highest generation, the same for all replicas. A model is registered only
after it was loaded from its file, in a process of its own, and has answered about a picture; the one before it works until then.
A replica that cannot load what another has registered goes on with what it has, and says so.
"""

import asyncio
import io
from typing import Final

from msgspec import Struct
from PIL import Image

from farmiq.edge.vision_inference import model_store
from farmiq.edge.vision_inference.card import Model, ModelRefused
from farmiq.edge.vision_inference.engine import Engine, EngineAway, Limits
from farmiq.edge.vision_inference.model_store import Registered
from farmiq.edge.vision_inference.sources import read_model
from farmiq.edge.vision_inference.verdicts import ModelNotAtWork
from farmiq.kit.errors import FarmiqError
from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection, Pool
from farmiq.kit.s3 import ObjectStore
from farmiq.timeseries.asking import asking

PROBE_SIZE: Final = (640, 480)

log = get_logger(__name__)


class AtWork(Struct, frozen=True):
    engine: Engine
    version: str
    generation: int


class Models:
    def __init__(self, pool: Pool, objects: ObjectStore, limits: Limits, bytes_max: int) -> None:
        self._pool = pool
        self._objects = objects
        self._limits = limits
        self._bytes_max = bytes_max
        self._changing = asyncio.Lock()
        self.at_work: AtWork | None = None

    async def require(self) -> None:
        """Readiness: there is a model."""
        if self.at_work is None:
            raise EngineAway("no model is loaded")

    async def introduce(self, source: str) -> None:
        """Put the configured model to work, unless its version is known: what was activated since then stays at work."""
        async with self._changing:
            model = await read_model(source, self._objects, self._bytes_max)
            async with asking(self._pool) as connection:
                known = await _known(connection, model)
            if known is None:
                await self._put_to_work(model)
        await self.follow()

    async def activate(self, source: str, version: str | None = None) -> Registered:
        """Raises `ModelRefused` or `ModelAway`, and then nothing has changed. `version`: only if that is what is there."""
        async with self._changing:
            model = await read_model(source, self._objects, self._bytes_max)
            if version not in (None, model.version):
                raise ModelRefused(f"{source} is {model.version} now, no longer {version}", code="other_version")
            return await self._put_to_work(model)

    async def follow(self) -> None:
        """Have the model at work that is to be: whichever replica has put it there."""
        async with self._changing:
            async with asking(self._pool) as connection:
                wanted = await model_store.newest(connection)
            if wanted is None or (self.at_work and self.at_work.generation == wanted.generation):
                return
            if self.at_work and self.at_work.version == wanted.model_version:
                self.at_work = AtWork(self.at_work.engine, wanted.model_version, wanted.generation)
                return
            model = await read_model(wanted.source, self._objects, self._bytes_max)
            if (model.version, model.sha256) != (wanted.model_version, wanted.sha256):
                raise ModelRefused(f"{wanted.source} is no longer {wanted.model_version}", code="other_sha256")
            await self._replace(await self._tried(model), wanted)

    async def for_version(self, version: str | None) -> AtWork:
        """The model at work, which must be that one if one was said."""
        if self.at_work is None or version not in (None, self.at_work.version):
            try:
                await self.follow()
            except ModelRefused as error:
                raise EngineAway(f"the model is not loaded: {error}") from error
        if self.at_work is None:
            raise EngineAway("no model is loaded")
        if version in (None, self.at_work.version):
            return self.at_work
        raise ModelNotAtWork(f"{self.at_work.version} is at work, and the picture was for {version}")

    async def close(self) -> None:
        if self.at_work is not None:
            await self.at_work.engine.close()

    async def _put_to_work(self, model: Model) -> Registered:
        engine = await self._tried(model)
        try:
            async with asking(self._pool) as connection, connection.transaction():
                await model_store.lock(connection)
                registered = await _registered(connection, model)
        except BaseException:
            await engine.close()
            raise
        await self._replace(engine, registered)
        return registered

    async def _tried(self, model: Model) -> Engine:
        """Loaded, and it has answered about a picture. Whatever it does instead is a reason not to take it."""
        engine = Engine(model, self._limits)
        try:
            await engine.start()
            await engine.look_at(probe_picture())
        except FarmiqError as error:
            await engine.close()
            raise ModelRefused(f"{model.version} of {model.source} does not work: {error}", code=error.code) from error
        except BaseException:
            await engine.close()
            raise
        return engine

    async def _replace(self, engine: Engine, registered: Registered) -> None:
        before, self.at_work = self.at_work, AtWork(engine, registered.model_version, registered.generation)
        log.info(
            "model_activated",
            model_version=registered.model_version,
            generation=registered.generation,
            before=before and before.version,
        )
        if before is not None:
            await before.engine.close()


def probe_picture() -> bytes:
    """Any picture: what counts is that the model answers with numbers that can be told."""
    saved = io.BytesIO()
    Image.linear_gradient("L").resize(PROBE_SIZE).convert("RGB").save(saved, "JPEG")
    return saved.getvalue()


async def _known(connection: Connection, model: Model) -> Registered | None:
    known = await model_store.of_version(connection, model.version)
    if known is not None and known.sha256 != model.sha256:
        raise ModelRefused(
            f"{model.version} is the name of another file here. Give the model of {model.source} a version of its own",
            code="version_taken",
        )
    return known


async def _registered(connection: Connection, model: Model) -> Registered:
    """One that is the newest already stays as it is: activating it again changes nothing."""
    known, newest = await _known(connection, model), await model_store.newest(connection)
    is_newest = known is not None and newest is not None and known.generation == newest.generation
    if known is not None and is_newest and known.source == model.source:
        return known
    return await model_store.put_to_work(connection, model)
