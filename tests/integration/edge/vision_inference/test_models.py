"""A new model takes the old one's place while pictures come; a broken one never does."""

import asyncio
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import aiohttp
import psutil
import pytest

from farmiq.edge.vision_inference.main import serve
from farmiq.edge.vision_inference.worker import MODEL_ALERT
from farmiq.kit.postgres import Pool
from support.inference_world import (
    SERVICE,
    Scales,
    assert_weighed_once,
    ended,
    grey,
    inference_environment,
    job_row,
    keep_picture,
    scales,
    weights_of,
)
from support.media_world import objects_of
from support.s3 import S3
from support.service_process import running
from support.tiny_models import Temper, card_of, tiny_model, write_model
from support.waiting import eventually


async def put_model(s3: S3, version: str, content: bytes | None = None, card: bytes | None = None) -> str:
    """Into the object store. Returns its address."""
    content = tiny_model(2.0) if content is None else content
    objects = objects_of(s3)
    key = f"models/{version}-{uuid4()}"
    await objects.put(s3.bucket, f"{key}.onnx", content, content_type="application/octet-stream")
    await objects.put(s3.bucket, f"{key}.json", card or card_of(content, version), content_type="application/json")
    return f"s3://{s3.bucket}/{key}.onnx"


async def is_alerted(pool: Pool) -> bool:
    return bool(
        await pool.fetchval(
            "SELECT EXISTS (SELECT FROM ops_alerts WHERE dedupe_key = $1 AND status = 'open')", MODEL_ALERT
        )
    )


async def results_of_session(pool: Pool, media_id: UUID) -> list[tuple[str, int]]:
    rows = await pool.fetch(
        "SELECT model_version, model_generation FROM session_results WHERE media_id = $1 ORDER BY 2", media_id
    )
    return [tuple(row) for row in rows]


async def test_a_model_from_the_object_store_takes_over_and_results_of_both_stand_side_by_side(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    first = write_model(tmp_path, "tiny-v1")
    async with scales(edge_url, s3, first) as service:
        before = await keep_picture(edge_pool, s3, grey(50))
        await ended(edge_pool, before)
        answer = await service.activate(source=await put_model(s3, "tiny-v2"))
        assert (answer.status, answer.body["generation"], answer.body["is_loaded"]) == (200, 2, True)
        after = await keep_picture(edge_pool, s3, grey(50))
        await ended(edge_pool, after)
        assert await weights_of(edge_pool, before) == {"tiny-v1": 50.0}
        assert await weights_of(edge_pool, after) == {"tiny-v2": 100.0}
        assert (await service.again(media_ids=[str(before)], model_version="tiny-v2")).status == 202
        await ended(edge_pool, before)
        assert await weights_of(edge_pool, before) == {"tiny-v1": 50.0, "tiny-v2": 100.0}
        assert await results_of_session(edge_pool, before) == [("tiny-v1", 1), ("tiny-v2", 2)]
        shown = (await service.get("models"))["models"]
        assert [(one["model_version"], one["is_active"]) for one in shown] == [("tiny-v2", True), ("tiny-v1", False)]
        assert shown[0]["card"]["limits"] == "for tests"
        # Back to the first: the newest activation counts, and what was said stays.
        back = await service.activate(model_version="tiny-v1")
        assert (back.status, back.body["generation"]) == (200, 3)
        assert (await service.activate(model_version="tiny-v1")).body["generation"] == 3
        last = await keep_picture(edge_pool, s3, grey(60))
        await ended(edge_pool, last)
        assert await results_of_session(edge_pool, last) == [("tiny-v1", 3)]
    await assert_weighed_once(edge_pool, [before, after], "tiny-v2")


REFUSED: dict[str, tuple[bytes, dict[str, Any], str]] = {
    "no onnx": (b"not a model", {}, "engine_away"),
    "another file than the card's": (tiny_model(), {"sha256": "0" * 64}, "other_sha256"),
    "a card of another kind": (tiny_model(), {"card_version": 2}, "bad_card"),
    "a card without confidence": (tiny_model(), {"outputs": {"weight_kg": {}}}, "bad_card"),
    "an output that is not there": (
        tiny_model(),
        {"outputs": {"weight_kg": {}, "confidence": {}, "predicted_size": {}}},
        "engine_away",
    ),
    "another size than the file's": (
        tiny_model(),
        {"input": {"name": "picture", "type": "uint8", "layout": "NHWC", "colour": "RGB", "width": 64, "height": 64}},
        "model_failed",
    ),
    "no weight": (tiny_model(float("nan")), {}, "answer_unusable"),
    "a confidence above one": (tiny_model(confidence=1.5), {}, "answer_unusable"),
    "a version that is another file": (tiny_model(3.0), {"model_version": "tiny-v1"}, "version_taken"),
}


async def test_a_model_that_does_not_work_is_refused_and_the_old_one_goes_on(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    async with scales(edge_url, s3, write_model(tmp_path, "tiny-v1")) as service:
        for what, (content, changes, code) in REFUSED.items():
            source = await put_model(s3, "broken", content, card_of(content, "broken", **changes))
            answer = await service.activate(source=source)
            assert (answer.status, answer.code) == (422, code), (what, answer.body)
        absent = await service.activate(source=f"s3://{s3.bucket}/models/none.onnx")
        assert (absent.status, absent.code) == (404, "model_missing")
        assert (await service.activate(model_version="never-seen")).code == "unknown_model"
        for wrong in ({}, {"source": "/etc/passwd"}, {"source": "http://a/b.onnx"}, {"model_version": "a b"}):
            assert (await service.activate(**wrong)).status == 400, wrong
        assert await service.active_version() == "tiny-v1"
        media_id = await keep_picture(edge_pool, s3, grey(50))
        assert await ended(edge_pool, media_id) == ["done"]
        assert await edge_pool.fetchval("SELECT count(*) FROM inference_models") == 1


async def test_what_was_activated_stays_at_work_after_a_restart_and_other_replicas_follow(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    first = write_model(tmp_path, "tiny-v1")
    async with scales(edge_url, s3, first) as one, scales(edge_url, s3, first) as two:
        assert (await one.activate(source=await put_model(s3, "tiny-v2"))).status == 200

        async def has_followed() -> bool:
            return await two.active_version() == "tiny-v2"

        await eventually(has_followed, what="the other replica to follow")
    async with scales(edge_url, s3, first) as again:
        assert await again.active_version() == "tiny-v2"
        media_id = await keep_picture(edge_pool, s3, grey(50))
        await ended(edge_pool, media_id)
    assert await weights_of(edge_pool, media_id) == {"tiny-v2": 100.0}


async def test_without_a_model_pictures_wait_somebody_is_told_and_it_goes_on_when_there_is_one(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    media_id = await keep_picture(edge_pool, s3, grey(50))
    environ = inference_environment(edge_url, s3, tmp_path / "tiny-v1.onnx")
    async with running(serve, SERVICE, environ) as url, aiohttp.ClientSession() as session:
        service = Scales(session, url)
        await eventually(lambda: is_alerted(edge_pool), what="the alert")
        ready = await service.call("GET", "/api/ready")
        assert (ready.status, "no model" in ready.body["checks"]["model"]) == (503, True)
        job = await job_row(edge_pool, media_id)
        assert (job["state"], job["attempt_count"]) == ("pending", 0)
        write_model(tmp_path, "tiny-v1")
        assert await ended(edge_pool, media_id) == ["done"]

        async def is_over() -> bool:
            return not await is_alerted(edge_pool)

        await eventually(is_over, what="the alert to end")


TEMPERS: dict[Temper, tuple[int, str]] = {
    "hangs": (255, "engine_died"),
    "eats memory": (255, "engine_died"),
    "fails": (255, "model_failed"),
    "no number": (0, "answer_unusable"),
}


@pytest.mark.parametrize("temper", TEMPERS)
async def test_a_picture_that_ends_the_model_is_given_up_and_the_next_is_weighed(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path, temper: Temper
) -> None:
    level, code = TEMPERS[temper]
    model = write_model(tmp_path, "tiny-v1", tiny_model(temper=temper))
    bad = await keep_picture(edge_pool, s3, grey(level))
    good = [await keep_picture(edge_pool, s3, grey(100)) for _ in range(3)]
    limits = {"INFERENCE_CPU_SECONDS_MAX": "1", "INFERENCE_ATTEMPTS_MAX": "2"}
    async with scales(edge_url, s3, model, **limits) as service:
        assert await ended(edge_pool, bad, *good) == ["failed", "done", "done", "done"]
        assert await service.is_ready()
        metrics = await service.metrics()
    job = await job_row(edge_pool, bad)
    # What the same bytes would do again is tried once; what may have been an accident, as often as allowed.
    assert (job["last_error_code"], job["attempt_count"]) == (code, 1 if temper == "no number" else 2)
    assert f'farmiq_inference_failed_total{{reason="{code}"}} 1.0' in metrics
    assert await weights_of(edge_pool, bad) == {}
    await assert_weighed_once(edge_pool, good)


async def test_a_swap_in_the_middle_of_many_pictures_loses_none_and_gives_each_one_result(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    async with scales(edge_url, s3, write_model(tmp_path, "tiny-v1")) as service:
        source = await put_model(s3, "tiny-v2")
        media_ids = await asyncio.gather(*(keep_picture(edge_pool, s3, grey(level)) for level in range(20, 60)))
        assert (await service.activate(source=source)).status == 200
        assert set(await ended(edge_pool, *media_ids)) == {"done"}
    results = [await weights_of(edge_pool, media_id) for media_id in media_ids]
    assert {len(result) for result in results} == {1}
    rows = await edge_pool.fetch("SELECT attempt_count FROM inference_jobs")
    assert {row["attempt_count"] for row in rows} == {1}


async def test_a_file_that_was_replaced_by_another_version_is_not_taken_for_the_old_one(
    edge_pool: Pool, edge_url: str, s3: S3, tmp_path: Path
) -> None:
    """As when an update brings a new model to the old place: it is put to work, and there is no way back to the old."""
    path = write_model(tmp_path, "model", model_version="tiny-v1")
    async with scales(edge_url, s3, path) as service:
        assert await service.active_version() == "tiny-v1"
    write_model(tmp_path, "model", tiny_model(2.0), model_version="tiny-v2")
    async with scales(edge_url, s3, path) as service:
        assert await service.active_version() == "tiny-v2"
        back = await service.activate(model_version="tiny-v1")
        assert (back.status, back.code) == (422, "other_version")
        assert await service.active_version() == "tiny-v2"
        assert not await is_alerted(edge_pool)


async def test_the_process_with_the_model_has_limits_and_no_secret_of_ours(
    edge_url: str, s3: S3, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ADMIN_TOKEN", "canary")
    memory = 700 * 1024 * 1024
    async with scales(edge_url, s3, write_model(tmp_path, "tiny-v1"), INFERENCE_MEMORY_BYTES_MAX=str(memory)):
        (child,) = [one for one in psutil.Process().children() if "engine_child" in " ".join(one.cmdline())]
        assert child.rlimit(psutil.RLIMIT_AS) == (memory, memory)
        assert child.rlimit(psutil.RLIMIT_FSIZE) == (0, 0)
        assert set(child.environ()) <= {
            "PATH", "LANG", "LC_ALL", "PYTHONPATH", "PYTHONHOME", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS",
        }  # fmt: skip
    assert not child.is_running()
