"""Pictures that are stored, models that weigh them, and `edge-vision-inference` over HTTP."""

import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import aiohttp
import msgspec
from PIL import Image

from farmiq.edge.media_store import handlers as media
from farmiq.edge.media_store import store as pictures
from farmiq.edge.media_store.picture import NewPicture
from farmiq.edge.media_store.verdicts import Sound
from farmiq.edge.vision_inference.job import job_id_of
from farmiq.edge.vision_inference.main import serve
from farmiq.kit.clock import Clock
from farmiq.kit.ids import new_id
from farmiq.kit.postgres import Pool
from farmiq.outbox import CHANNEL
from farmiq.timeseries.stream import Origin
from support.media_world import ADMIN_TOKEN, CAPTURED_AT, STATION, Answer, environment, objects_of
from support.picture_files import encoded
from support.s3 import S3
from support.service_process import running
from support.waiting import eventually

SERVICE = "edge-vision-inference"


def grey(level: int, width: int = 320, height: int = 160) -> bytes:
    """A picture that a tiny model weighs as its level."""
    return encoded(Image.new("RGB", (width, height), (level, level, level)), "PNG")


async def keep_picture(
    pool: Pool,
    s3: S3,
    data: bytes,
    *,
    origin: Origin = STATION,
    session_id: UUID | None = None,
    captured_at: datetime = CAPTURED_AT,
    verified: bytes | None = None,
) -> UUID:
    """Into the object store, and through the transaction with which the media store commits a verified picture.

    `verified` are other bytes than those that lie there: what was verified before somebody changed them.
    """
    media_id = new_id()
    key = f"tenants/{origin.tenant_id}/images/{media_id}.png"
    await objects_of(s3).put(s3.bucket, key, data, content_type="image/png")
    new = NewPicture(
        media_id=media_id,
        origin=origin,
        station_id=None,
        session_id=session_id,
        bucket=s3.bucket,
        object_key=key,
        mime_type="image/png",
        size_bytes=None,
        sha256=None,
        captured_at=captured_at,
        expires_at=captured_at,
        trace_id="trace-1",
    )
    async with pool.acquire() as connection:
        await pictures.add(connection, new, first_check_seconds=3600)
        row = await pictures.of_tenant(connection, media_id, origin.tenant_id)
    assert row is not None
    sound = Sound(len(data), hashlib.sha256(verified or data).hexdigest(), 320, 160)
    assert (await media.settle(pool, row, sound, Clock().now())).is_ours
    await pool.execute("SELECT pg_notify($1, '')", CHANNEL)  # as the media store's announcer does
    return media_id


class Scales:
    """The service, as an operator and as a reader see it."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url

    async def call(self, method: str, path: str, token: str = ADMIN_TOKEN, **options: Any) -> Answer:
        headers = {"authorization": f"Bearer {token}"}
        async with self._session.request(method, f"{self.url}{path}", headers=headers, **options) as answer:
            return Answer(answer.status, await answer.json(content_type=None), answer.headers)

    async def get(self, path: str, **query: Any) -> Any:
        answer = await self.call("GET", f"/api/v1/inference/{path}", params=query)
        assert answer.status == 200, answer.body
        return answer.body

    async def metrics(self) -> str:
        async with self._session.get(f"{self.url}/metrics") as answer:
            return await answer.text()

    async def again(self, **asked: Any) -> Answer:
        return await self.call("POST", "/api/v1/inference/jobs", json={"tenant_id": "demo", **asked})

    async def activate(self, **asked: Any) -> Answer:
        return await self.call("POST", "/api/v1/inference/models/activate", json=asked)

    async def active_version(self) -> str | None:
        found = (await self.get("models"))["models"]
        return next((model["model_version"] for model in found if model["is_active"] and model["is_loaded"]), None)

    async def is_ready(self) -> bool:
        return (await self.call("GET", "/api/ready")).status == 200


def inference_environment(database_url: str, s3: S3, model: Path | str, /, **more: str) -> dict[str, str]:
    return environment(database_url, s3, INFERENCE_MODEL=str(model), **more)


@asynccontextmanager
async def scales(
    database_url: str, s3: S3, model: Path | str, clock: Clock | None = None, /, **more: str
) -> AsyncIterator[Scales]:
    """The service in this loop, with its model loaded."""
    environ = inference_environment(database_url, s3, model, **more)
    async with running(serve, SERVICE, environ, clock) as url, aiohttp.ClientSession() as session:
        service = Scales(session, url)
        await eventually(service.is_ready, what="the model to be loaded")
        yield service


async def state_of(pool: Pool, media_id: UUID) -> str | None:
    state: str | None = await pool.fetchval("SELECT state FROM inference_jobs WHERE media_id = $1", media_id)
    return state


async def ended(pool: Pool, *media_ids: UUID, seconds: float = 30.0) -> list[str]:
    """Waits until each of their jobs is done or given up. Their states, in that order."""

    async def are_over() -> bool:
        return all([await state_of(pool, media_id) in ("done", "failed") for media_id in media_ids])

    await eventually(are_over, seconds, what="the pictures to be looked at")
    return [str(await state_of(pool, media_id)) for media_id in media_ids]


async def weights_of(pool: Pool, media_id: UUID) -> dict[str, float]:
    """What each model version said."""
    rows = await pool.fetch("SELECT * FROM inference_results WHERE media_id = $1", media_id)
    return {row["model_version"]: row["predicted_weight_kg"] for row in rows}


async def told(pool: Pool) -> list[tuple[Any, dict[str, Any]]]:
    """Every `inference.completed` of the outbox: its session and its payload."""
    rows = await pool.fetch("SELECT * FROM sync_outbox WHERE event_type = 'inference.completed' ORDER BY created_at")
    return [(row["session_id"], msgspec.json.decode(row["payload_json"])) for row in rows]


async def assert_weighed_once(pool: Pool, media_ids: list[UUID], model_version: str = "tiny-v1") -> None:
    """Each of these has one result of this model, told once to the cloud and once to the sessions; and no other has."""
    wanted = sorted(media_ids)
    for statement in (
        "SELECT media_id FROM inference_results WHERE model_version = $1 ORDER BY 1",
        "SELECT media_id FROM session_results WHERE model_version = $1 ORDER BY 1",
        """SELECT (payload_json->>'media_id')::uuid FROM sync_outbox
            WHERE event_type = 'inference.completed' AND payload_json->>'model_version' = $1 ORDER BY 1""",
        "SELECT media_id FROM inference_jobs WHERE state = 'done' AND model_version = $1 ORDER BY 1",
    ):
        assert [row[0] for row in await pool.fetch(statement, model_version)] == wanted, statement


async def job_row(pool: Pool, media_id: UUID) -> dict[str, Any]:
    row = await pool.fetchrow("SELECT * FROM inference_jobs WHERE id = $1", job_id_of(media_id))
    assert row is not None
    return dict(row.items())
