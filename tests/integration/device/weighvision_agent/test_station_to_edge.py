"""A station's sessions and pictures at a real edge: broker, database, object store, and our services."""

import asyncio
import json
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp

from farmiq.kit.postgres import Pool
from integration.device.weighvision_agent.station_world import Station, edge_running, stations
from support.mosquitto import Broker
from support.s3 import S3
from support.waiting import eventually, wait_for


async def test_an_animal_on_the_scale_becomes_a_whole_session_at_the_edge(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    station = Station(tmp_path / "scale-1", "scale-1", run_folder)
    station.tables["session"] = {"batch_id": "batch-7"}
    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:
        await edge.admit(station)
        with stations(station):
            station.start()
            await asyncio.to_thread(wait_for, station.is_watching)
            await asyncio.to_thread(station.weigh, 120.5)
            await eventually(lambda: edge.is_whole(station), 30, "the session at the edge")
            ((session_id, status, image_count, weight_kg, stored),) = await edge.sessions_of(station)
            assert (status, image_count, weight_kg, stored) == ("finalized", 3, 120.5, 3)
            assert session_id == station.sessions()[0][0]
            await asyncio.to_thread(wait_for, lambda: station.status().get("unacked_count") == 0)
            assert station.stop() == 0
    row = await edge_pool.fetchrow("SELECT batch_id, initial_weight_kg::float8 FROM weight_sessions")
    assert row is not None
    assert tuple(row) == ("batch-7", 120.5)
    traces = await edge_pool.fetch("SELECT DISTINCT trace_id FROM media_objects")
    assert len(traces) == 1, "one session, one trace"
    assert await edge_pool.fetchval("SELECT count(*) FROM ingress_rejected") == 0


async def test_pictures_on_a_schedule_come_without_a_session_and_with_the_weight_that_is_wanted(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    station = Station(tmp_path / "scale-1", "scale-1", run_folder)
    station.tables["schedule"] = {"every_seconds": 1, "with_weight": True}
    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:
        await edge.admit(station)
        with stations(station):
            station.start()

            async def are_there() -> bool:
                return int(await edge_pool.fetchval("SELECT count(*) FROM media_objects WHERE state = 'stored'")) >= 3

            await eventually(are_there, 30, "three pictures")
            assert station.stop() == 0
    assert await edge_pool.fetchval("SELECT count(*) FROM media_objects WHERE session_id IS NOT NULL") == 0
    assert await edge_pool.fetchval("SELECT count(*) FROM weight_sessions") == 0
    told = "SELECT count(*) FROM sync_outbox WHERE event_type = 'weighvision.image.captured' AND session_id IS NULL"
    assert await edge_pool.fetchval(told) >= 3
    weights = await edge_pool.fetch(
        "SELECT metric_value::float8 AS kg, unit FROM telemetry_raw WHERE metric_type = 'weight'"
    )
    assert len(weights) >= 2, "the very first picture may be taken before the scale has spoken"
    assert {(row["kg"], row["unit"]) for row in weights} == {(0.0, "kg")}


async def test_a_station_over_its_bytes_of_the_day_keeps_its_pictures_and_sends_its_events(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    station = Station(tmp_path / "scale-1", "scale-1", run_folder)
    async with edge_running(edge_pool, edge_url, mosquitto, s3, MEDIA_DEVICE_BYTES_PER_DAY="1") as edge:
        await edge.admit(station)
        with stations(station):
            station.start()
            await asyncio.to_thread(wait_for, station.is_watching)
            await asyncio.to_thread(station.weigh, 120.5)

            async def are_events_there() -> bool:
                return [row[1:4] for row in await edge.sessions_of(station)] == [("finalized", 3, 120.5)]

            await eventually(are_events_there, 30, "the session at the edge")
            await asyncio.to_thread(wait_for, lambda: station.logged("edge_media_store_lost"))
            assert "too_many_bytes" in station.logged("edge_media_store_lost")[0]["reason"]
            assert station.stop() == 0
            assert await edge_pool.fetchval("SELECT count(*) FROM media_objects") == 0
            # Another day: the same pictures come, and not one has paid an attempt.
            await edge.stop()
            await edge.start()
            station.variables["EDGE_MEDIA_STORE_URL"] = edge.media_url
            station.start()
            await eventually(lambda: edge.is_whole(station), 30, "the pictures at the edge")
            assert station.logged("upload_refused") == []
            assert station.stop() == 0


async def test_a_camera_and_a_scale_that_fail_are_shown_and_found_again(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    station = Station(tmp_path / "scale-1", "scale-1", run_folder)
    station.tables["scale"] = {"timeout_seconds": 1.0}
    hidden = station.pictures.with_name("hidden")
    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:
        await edge.admit(station)
        with stations(station):
            station.pictures.rename(hidden)
            station.start()
            await asyncio.to_thread(wait_for, station.is_watching)
            await asyncio.to_thread(station.weigh, 75.0)
            await asyncio.to_thread(wait_for, lambda: station.status().get("faulty_sensors") == ["camera"])
            station.scale.pull()
            await asyncio.to_thread(wait_for, lambda: station.status().get("faulty_sensors") == ["camera", "scale"])
            hidden.rename(station.pictures)
            station.scale.plug()
            await asyncio.to_thread(wait_for, lambda: station.status().get("faulty_sensors") == ["camera"])
            await asyncio.to_thread(station.weigh, 76.0, 2)
            await eventually(lambda: edge.is_whole(station, 2), 30, "both sessions at the edge")
            known = await edge.sessions_of(station)
            await asyncio.to_thread(wait_for, lambda: "faulty_sensors" not in station.status())
    assert [(kg, count) for _, _, count, kg, _ in known] == [(75.0, 0), (76.0, 3)]
    assert [line["part"] for line in station.logged("driver_failed")] == ["camera", "scale"], "once each"


async def test_an_edge_that_was_restored_from_a_backup_gets_the_session_and_its_pictures_again(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    station = Station(tmp_path / "scale-1", "scale-1", run_folder)
    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:
        await edge.admit(station)
        with stations(station):
            station.start()
            await asyncio.to_thread(wait_for, station.is_watching)
            await asyncio.to_thread(station.weigh, 75.0)
            await eventually(lambda: edge.is_whole(station), 30, "the first session at the edge")
            before = await edge.sessions_of(station)
            await edge_pool.execute(
                "TRUNCATE weight_sessions, media_objects, ingress_dedupe, sync_outbox, media_transfers CASCADE"
            )
            await edge_pool.execute("UPDATE edge_identity SET epoch = gen_random_uuid()")
            assert await edge.sessions_of(station) == []
            await asyncio.to_thread(wait_for, station.scale_is_empty)
            await asyncio.to_thread(station.weigh, 76.0, 2)
            await eventually(lambda: edge.is_whole(station, 2), 60, "both sessions at the restored edge")
            after = await edge.sessions_of(station)
    assert [row[0] for row in after] == [row[0] for row in station.sessions()]
    assert after[0] == before[0]
    assert station.logged("edge_went_back")


async def test_a_picture_that_the_edge_never_takes_fails_its_session_and_the_cloud_is_told_of_the_loss(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    station = Station(tmp_path / "scale-1", "scale-1", run_folder, WEIGHVISION_UPLOAD_ATTEMPTS_MAX="1")
    async with edge_running(edge_pool, edge_url, mosquitto, s3, MEDIA_BYTES_MAX="1024") as edge:
        await edge.admit(station)
        with stations(station):
            station.start()
            await asyncio.to_thread(wait_for, station.is_watching)
            await asyncio.to_thread(station.weigh, 75.0)

            async def declared() -> list[dict[str, Any]]:
                rows = await edge_pool.fetch("SELECT payload_json FROM sync_outbox WHERE event_type = 'station.loss'")
                losses = [json.loads(bytes(row["payload_json"])) for row in rows]
                return losses if sum(loss["pictures"] for loss in losses) == 3 else []

            losses = await eventually(declared, 30, "the loss in the outbox")
            session_id = station.sessions()[0][0]
            status = await asyncio.to_thread(wait_for, lambda: _with_failed(station.status()))
            assert station.waiting() == 0
            shown_at_edge = (
                "SELECT count(*) = 1 FROM device_liveness WHERE status_json->>'failed_sessions_count' = '1'"
                " AND status_json->'failed_sessions'->0->>'session_id' = $1"
            )
            await eventually(
                lambda: edge_pool.fetchval(shown_at_edge, session_id), 30, "the failed session at the edge"
            )
    assert status is not None
    assert {(loss["reason"], *loss["session_ids"]) for loss in losses} == {("retries_exhausted", session_id)}
    assert [one["session_id"] for one in status["failed_sessions"]] == [session_id]
    assert status["dropped_count"] == 3
    assert len(list((station.queue_folder / "pictures").iterdir())) == 3, "nothing is deleted in silence"


async def test_an_edge_whose_key_the_object_store_does_not_believe_costs_no_picture(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    station = Station(tmp_path / "scale-1", "scale-1", run_folder, WEIGHVISION_UPLOAD_ATTEMPTS_MAX="1")
    async with edge_running(edge_pool, edge_url, mosquitto, s3, S3_SECRET_KEY="rotated") as edge:
        await edge.admit(station)
        with stations(station):
            station.start()
            await asyncio.to_thread(wait_for, station.is_watching)
            await asyncio.to_thread(station.weigh, 75.0)
            await asyncio.to_thread(wait_for, lambda: "403" in station.status().get("upload_trouble", ""), 30)
            assert station.logged("object_store_refused")
            tried = "SELECT count(*) >= 3 FROM media_objects"
            await eventually(lambda: edge_pool.fetchval(tried), 60, "each of the pictures to have been tried")
            assert station.status()["dropped_count"] == 0
            station.kill()
            await edge.stop()
            await edge.start()
            station.variables["EDGE_MEDIA_STORE_URL"] = edge.media_url
            station.start()
            await eventually(lambda: edge.is_whole(station), 90, "the session at the edge with the right key")
            assert [stored for _, _, _, _, stored in await edge.sessions_of(station)] == [3]


def _with_failed(status: dict[str, Any]) -> dict[str, Any] | None:
    return status if status.get("dropped_count") == 3 and status.get("failed_sessions_count") == 1 else None


async def shown(url: str, tenant_id: str) -> dict[str, Any]:
    """What the edge shows an operator of this tenant."""
    headers = {"authorization": "Bearer for-this-test-only"}
    async with (
        aiohttp.ClientSession() as client,
        client.get(url, params={"tenant_id": tenant_id}, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
        return dict(await answer.json())


async def test_stations_of_two_tenants_at_one_edge_do_not_see_each_other(
    edge_pool: Pool, edge_url: str, mosquitto: Broker, s3: S3, run_folder: Path, tmp_path: Path
) -> None:
    ours, theirs = (Station(tmp_path / name, name, run_folder) for name in ("scale-1", "scale-2"))
    theirs.tenant_id = "rival"
    async with edge_running(edge_pool, edge_url, mosquitto, s3) as edge:
        with stations(ours, theirs):
            for station in (ours, theirs):
                await edge.admit(station)
                station.start()
            for station, kg in ((ours, 80.0), (theirs, 95.0)):
                await asyncio.to_thread(wait_for, station.is_watching)
                await asyncio.to_thread(station.weigh, kg)
            for station in (ours, theirs):
                await eventually(partial(edge.is_whole, station), 30, "the session at the edge")
                sessions = await shown(f"{edge.sessions_url}/api/v1/weighvision/sessions", station.tenant_id)
                assert [one["id"] for one in sessions["sessions"]] == [station.sessions()[0][0]]
                pictures = await shown(f"{edge.media_url}/api/v1/media", station.tenant_id)
                assert [one["device_id"] for one in pictures["pictures"]] == [station.device_id] * 3
            # Told to speak for the other tenant, its credential still says whose it is.
            theirs.stop()
            theirs.tenant_id = "demo"
            theirs.start()
            await asyncio.to_thread(wait_for, theirs.is_watching)
            await asyncio.to_thread(theirs.weigh, 60.0, 2)
            await asyncio.to_thread(wait_for, lambda: theirs.status().get("put_off_code") == "not_provisioned")
            assert theirs.status()["unacked_count"] > 0, "a setting that is put right brings all of it"
            await asyncio.to_thread(wait_for, lambda: bool(theirs.logged("edge_media_store_refused")))
    owners = "SELECT DISTINCT tenant_id, device_id FROM {} ORDER BY 1"
    for table in ("weight_sessions", "media_objects", "sync_outbox"):
        rows = await edge_pool.fetch(owners.format(table))
        assert [tuple(row) for row in rows] == [("demo", "scale-1"), ("rival", "scale-2")], table
    assert await edge_pool.fetchval("SELECT count(*) FROM weight_sessions") == 2
