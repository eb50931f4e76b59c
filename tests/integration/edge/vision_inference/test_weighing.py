"""A stored picture gets a weight: once for each model, whatever is wrong with its neighbours."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
import pytest_asyncio

from farmiq.contracts.weighvision import ImageCaptured
from farmiq.edge.media_store import intake as media
from farmiq.edge.own_events import naming
from farmiq.edge.vision_inference.job import event_id_of, job_id_of, result_id_of
from farmiq.kit.postgres import Pool
from farmiq.timeseries.stream import Origin
from support.inference_world import (
    Scales,
    assert_weighed_once,
    ended,
    grey,
    job_row,
    keep_picture,
    scales,
    told,
    weights_of,
)
from support.media_world import CAPTURED_AT, STATION, objects_of, register, station
from support.picture_files import picture
from support.s3 import S3
from support.session_rows import open_alerts
from support.tiny_models import tiny_model, write_model

ELSEWHERE = Origin("other", "farm-9", "barn-9", "scale-9")


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path, "tiny-v1")


@pytest_asyncio.fixture
async def weighing(edge_pool: Pool, edge_url: str, s3: S3, model: Path) -> AsyncIterator[Scales]:
    async with scales(edge_url, s3, model) as service:
        yield service


async def test_an_uploaded_picture_ends_with_a_weight_that_everybody_was_told_of(
    edge_pool: Pool, edge_url: str, s3: S3, weighing: Scales
) -> None:
    """Through the real media store, with curl's steps."""
    session_id = uuid4()
    async with station(edge_pool, edge_url, s3) as scale:
        media_id = await scale.upload(picture(width=640, height=320), sessionId=str(session_id))
        assert (await scale.complete(media_id)).status == 200
        assert await ended(edge_pool, media_id) == ["done"]
    await assert_weighed_once(edge_pool, [media_id])
    ((of_session, payload),) = await told(edge_pool)
    assert of_session == session_id
    assert payload == {
        "inference_result_id": str(result_id_of(media_id, "tiny-v1")),
        "predicted_weight_kg": pytest.approx(127, abs=3),
        "confidence": 0.75,
        "model_version": "tiny-v1",
        "media_id": str(media_id),
    }
    event = await edge_pool.fetchrow("SELECT * FROM sync_outbox WHERE event_type = 'inference.completed'")
    assert event is not None
    async with edge_pool.acquire() as connection:
        event_id = event_id_of(result_id_of(media_id, "tiny-v1"), "demo", media_id, await naming(connection))
    assert (event["id"], event["trace_id"]) == (event_id, "trace-1")
    kept = await edge_pool.fetchrow("SELECT * FROM session_results WHERE media_id = $1", media_id)
    assert kept is not None
    assert (kept["model_generation"], kept["session_id"]) == (1, session_id)


async def test_a_picture_without_a_session_gets_a_weight_and_one_that_found_its_session_meanwhile_names_it(
    edge_pool: Pool, edge_url: str, s3: S3, model: Path
) -> None:
    lone, bound, session_id = (
        await keep_picture(edge_pool, s3, grey(80)),
        await keep_picture(edge_pool, s3, grey(90)),
        uuid4(),
    )
    async with edge_pool.acquire() as connection, connection.transaction():
        announcement = media.Announcement(STATION, ImageCaptured(media_id=bound), session_id)
        (answer,) = await media.announce(connection, [announcement])
    assert answer.refusal is None
    async with scales(edge_url, s3, model):
        assert await ended(edge_pool, lone, bound) == ["done", "done"]
    assert {row[1]["media_id"]: row[0] for row in await told(edge_pool)} == {str(lone): None, str(bound): session_id}
    assert await weights_of(edge_pool, lone) == {"tiny-v1": 80.0}


async def test_low_confidence_and_a_size_are_told_as_they_are(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    outputs: dict[str, object] = {"weight_kg": {}, "confidence": {}, "predicted_size": {}}
    path = write_model(tmp_path, "sized", tiny_model(0.1, confidence=0.0, size="L"), outputs=outputs)
    media_id = await keep_picture(edge_pool, s3, grey(100))
    async with scales(edge_url, s3, path) as service:
        assert await ended(edge_pool, media_id) == ["done"]
        (result,) = (await service.get("results", tenant_id="demo"))["results"]
    assert (result["confidence"], result["predicted_size"]) == (0.0, "L")
    assert result["predicted_weight_kg"] == pytest.approx(10.0)
    assert (await told(edge_pool))[0][1]["predicted_size"] == "L"


async def test_what_cannot_be_looked_at_is_given_up_with_its_reason_and_costs_no_other_its_turn(
    edge_pool: Pool, edge_url: str, s3: S3, model: Path
) -> None:
    await register(edge_pool)
    good = [await keep_picture(edge_pool, s3, grey(level)) for level in (50, 60)]
    changed = await keep_picture(edge_pool, s3, grey(70), verified=grey(71))
    garbage = await keep_picture(edge_pool, s3, b"no picture at all")
    huge = await keep_picture(edge_pool, s3, grey(70, 1000, 1000))
    later = [await keep_picture(edge_pool, s3, grey(level)) for level in (51, 61)]
    async with scales(edge_url, s3, model, MEDIA_PIXELS_MAX="500000") as service:
        states = await ended(edge_pool, *good, changed, garbage, huge, *later)
        assert states == ["done", "done", "failed", "failed", "failed", "done", "done"]
        failed = (await service.get("jobs", tenant_id="demo", state="failed"))["jobs"]
        metrics = await service.metrics()
    assert {job["media_id"]: (job["last_error_code"], job["attempt_count"]) for job in failed} == {
        str(changed): ("checksum_mismatch", 1),
        str(garbage): ("not_a_picture", 1),
        str(huge): ("too_many_pixels", 1),
    }
    assert 'farmiq_inference_failed_total{reason="not_a_picture"} 1.0' in metrics
    await assert_weighed_once(edge_pool, [*good, *later])
    (alert,) = await open_alerts(edge_pool)
    assert "got no weight" in alert


async def test_an_object_that_is_gone_is_tried_a_few_times_and_looked_at_again_when_asked(
    edge_pool: Pool, edge_url: str, s3: S3, model: Path
) -> None:
    media_id = await keep_picture(edge_pool, s3, grey(50))
    key = (await job_row(edge_pool, media_id))["object_key"]
    await objects_of(s3).delete(s3.bucket, key)
    async with scales(edge_url, s3, model, INFERENCE_ATTEMPTS_MAX="2") as service:
        assert await ended(edge_pool, media_id) == ["failed"]
        job = await job_row(edge_pool, media_id)
        assert (job["last_error_code"], job["attempt_count"]) == ("object_missing", 2)
        await objects_of(s3).put(s3.bucket, key, grey(50), content_type="image/png")
        asked = await service.again(media_ids=[str(media_id), str(media_id)])
        assert (asked.status, asked.body["job_ids"]) == (202, [str(job_id_of(media_id))])
        assert await ended(edge_pool, media_id) == ["done"]
    await assert_weighed_once(edge_pool, [media_id])


async def test_results_can_be_asked_for_by_what_they_are_of_and_page_by_page(
    edge_pool: Pool, s3: S3, weighing: Scales
) -> None:
    session_id = uuid4()
    media_ids = [await keep_picture(edge_pool, s3, grey(level), session_id=session_id) for level in range(40, 47)]
    theirs = await keep_picture(edge_pool, s3, grey(50), origin=ELSEWHERE)
    await ended(edge_pool, *media_ids, theirs)
    seen: list[str] = []
    after: dict[str, str] = {}
    while True:
        page = await weighing.get("results", tenant_id="demo", limit=3, session_id=str(session_id), **after)
        seen += [result["media_id"] for result in page["results"]]
        if page["next"] is None:
            break
        after = {"after": page["next"]}
    assert sorted(seen) == sorted(map(str, media_ids))
    (only,) = (await weighing.get("results", tenant_id="demo", media_id=str(media_ids[0])))["results"]
    assert (only["predicted_weight_kg"], only["predicted_size"]) == (40.0, None)
    for nothing in ({"model_version": "other"}, {"device_id": "scale-9"}, {"to": "2001-01-01T00:00:00Z"}):
        assert (await weighing.get("results", tenant_id="demo", **nothing))["results"] == []
    (other,) = (await weighing.get("results", tenant_id="other"))["results"]
    assert other["media_id"] == str(theirs)


async def test_a_tenant_sees_its_own_jobs_only_and_nobody_sees_anything_without_a_token(
    edge_pool: Pool, s3: S3, weighing: Scales
) -> None:
    media_id = await keep_picture(edge_pool, s3, grey(50))
    await ended(edge_pool, media_id)
    path = f"/api/v1/inference/jobs/{job_id_of(media_id)}"
    shown = await weighing.call("GET", path, params={"tenant_id": "demo"})
    assert (shown.body["state"], shown.body["result_id"]) == ("done", str(result_id_of(media_id, "tiny-v1")))
    assert (await weighing.call("GET", path, params={"tenant_id": "other"})).code == "unknown_job"
    about = {"media_id": [str(media_id), str(uuid4())]}
    assert (await weighing.get("jobs", tenant_id="demo", **about))["jobs"] == [shown.body]
    assert (await weighing.get("jobs", tenant_id="other", **about))["jobs"] == []
    both = await weighing.call("GET", "/api/v1/inference/jobs", params={"tenant_id": "demo", "state": "done", **about})
    assert both.status == 400
    foreign = await weighing.again(tenant_id="other", media_ids=[str(media_id)])
    assert foreign.body == {"job_ids": [], "unknown": [str(media_id)], "next": None}
    for method, route in (
        ("GET", path),
        ("GET", "/api/v1/inference/jobs"),
        ("GET", "/api/v1/inference/results"),
        ("GET", "/api/v1/inference/models"),
        ("POST", "/api/v1/inference/jobs"),
        ("POST", "/api/v1/inference/models/activate"),
    ):
        assert (await weighing.call(method, route, token="guessed", params={"tenant_id": "demo"})).status == 401, route


NOT_ALLOWED: list[dict[str, Any]] = [
    {},
    {"media_ids": []},
    {"media_ids": ["x"]},
    {"media_ids": [str(uuid4())], "since": "2026-01-01T00:00:00Z"},
    {"since": "2026-01-01T00:00:00Z"},
    {"since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
    {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "limit": 1001},
    {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00Z", "after": "x"},
    {"media_ids": [str(uuid4())], "tenant_id": "a/b"},
    {"media_ids": [str(uuid4())], "surprise": 1},
]


async def test_what_is_not_allowed_is_refused(weighing: Scales) -> None:
    for asked in NOT_ALLOWED:
        assert (await weighing.again(**asked)).status == 400, asked
    too_many = await weighing.again(media_ids=[str(uuid4()) for _ in range(1001)])
    assert too_many.status == 400
    other = await weighing.again(media_ids=[str(uuid4())], model_version="tiny-v2")
    assert (other.status, other.code) == (409, "model_not_at_work")


async def test_a_time_is_looked_at_again_in_bounded_steps(edge_pool: Pool, s3: S3, weighing: Scales) -> None:
    minutes = [CAPTURED_AT + timedelta(minutes=number) for number in range(6)]
    media_ids = [await keep_picture(edge_pool, s3, grey(60), captured_at=at) for at in minutes]
    await ended(edge_pool, *media_ids)
    times = {"since": minutes[1].isoformat(), "until": minutes[5].isoformat()}
    first = await weighing.again(**times, limit=3)
    assert (first.status, len(first.body["job_ids"])) == (202, 3)
    rest = await weighing.again(**times, limit=3, after=first.body["next"])
    assert (len(rest.body["job_ids"]), rest.body["next"]) == (1, None)
    asked = {*first.body["job_ids"], *rest.body["job_ids"]}
    assert asked == {str(job_id_of(media_id)) for media_id in media_ids[1:5]}
    await ended(edge_pool, *media_ids)
    # This model has spoken of them all: nothing is said twice.
    await assert_weighed_once(edge_pool, media_ids)
