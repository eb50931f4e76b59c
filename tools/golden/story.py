"""What happens to a golden farm, stage by stage, until something lies at every place where something can lie.

a. everything runs      traffic, losses, sessions, pictures, dead letters, people; every route is recorded
b. the cloud stalls     messages wait on the bus, events are claimed and parked, pictures are being sent; then the power fails
c. the edge alone       events and pictures pile up at the edge; then the gateway stalls, and messages wait in the broker
d. nothing but servers  databases, bus and objects are written down
e. the devices alone    spools and queues fill up; then the devices are switched off

PYTHONPATH=tools python -m golden.story HOME FOLDER    in the environment of the release"""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from golden import capture, kinds, responses
from golden.bus import Bus, Objects
from golden.devices import Generators, Login, Speaker, end, forwarder_variables, jpeg, station_variables
from golden.farm import SERVICES, Farm, NotReached, wait_for

NODES: Final = {"golden-node-1": (24.0, None), "golden-node-2": (80.0, 32_768)}
"""Samples a second, and the most that the spool may hold: the second node loses samples whenever the broker is away."""
DEVICES: Final = {
    **dict.fromkeys(NODES, "node"),
    **dict.fromkeys(("golden-sensor", "golden-pump", "golden-gone"), "sensor"),
    **dict.fromkeys(("golden-station", "golden-agent", "golden-scale"), "weigh-station"),
}
BATCHES, IMAGES, MEDIA = "telemetry.batch.ingested", "weighvision.image.captured", "media.stored"

SETTINGS: Final = {"TELEMETRY_SYNC_MODE": "both", "TELEMETRY_SYNC_SETTLE_SECONDS": "1"}
"""Those that the farm has for all of its life, and that whoever brings it up again has to give it too."""
_IMPATIENT: Final = SETTINGS | {
    "AGGREGATED_EVENT_GRACE_SECONDS": "1",
    "OUTBOX_LEASE_SECONDS": "5", "OUTBOX_MAX_ATTEMPTS": "2", "SYNC_BATCH_EVENTS_SECONDS": "5",
    "MEDIA_SYNC_WANTED_SECONDS": "5", "RECOMPUTE_DEBOUNCE_MS": "500", "MEDIA_URL_SECONDS": "30",
    "MEDIA_UPLOAD_GRACE_SECONDS": "1", "MEDIA_SWEEP_SECONDS": "1", "SESSION_INCOMPLETE_MINUTES": "0.2",
    "SESSION_SETTLE_SECONDS": "2", "ALERT_INTERVAL_SECONDS": "2",
}  # fmt: skip
_STALLING: Final = SETTINGS | {
    "OUTBOX_LEASE_SECONDS": "60", "RECOMPUTE_DEBOUNCE_MS": "600000",
    "MEDIA_SYNC_BYTES_PER_SECOND": "1", "MEDIA_SYNC_STALL_SECONDS": "900",
    "SYNC_BATCH_EVENTS_SECONDS": "5", "MEDIA_SYNC_WANTED_SECONDS": "5",
}  # fmt: skip
_EDGE_ALONE: Final = tuple(
    name for name in SERVICES
    if not name.startswith("cloud-") and name not in {"edge-sync-forwarder", "edge-vision-inference", "console"}
)  # fmt: skip


class Story:
    def __init__(self, farm: Farm, folder: Path) -> None:
        self.farm = farm
        self.folder = folder
        self.logins: dict[str, Login] = {}
        self.credentials: dict[str, Any] = {}
        self.settings = SETTINGS
        self.poison: list[dict[str, Any]] = []
        self.replayable: list[str] = []
        self._work = folder.parent / "work"
        self._work.mkdir(exist_ok=True)
        self._ledger_file = (self._work / "speakers.jsonl").open("a")
        self._processes: list[subprocess.Popen[bytes]] = []

    def run(self) -> None:
        step("a. everything runs")
        self.farm.start(SERVICES, _IMPATIENT)
        self.bus = Bus(self.farm.environment["AMQP_URL"])
        self._add_devices()
        self._start_devices()
        self._people()
        self._other_edge()
        self._traffic()
        self._sessions()
        self._losses()
        self._pictures()
        self._dead_letters()
        self._refused_events()
        self._alerts()
        self._wait_for_figures()
        step("recording every route")
        responses.record(self.farm, self.credentials, self.folder / "responses.json.gz")
        self.farm.stop()
        step("b. the cloud stalls")
        self._stall()
        step("c. the edge alone")
        self._edge_alone()
        step("d. nothing but servers")
        self._write_down()
        step("e. the devices alone")
        self._devices_alone()
        capture.home(self.farm, self.folder)
        capture.manifest(self, self.folder)

    # --- a ---

    def _add_devices(self) -> None:
        for device, kind in DEVICES.items():
            self.logins[device] = Login.of(self.farm.command_json("device", "add", device, "--kind", kind))
        other = self.farm.command_json("device", "add", "golden-neighbour", "--kind", "sensor", "--tenant", "tenant-1")
        self.logins["golden-neighbour"] = Login.of(other)

    def _start_devices(self) -> None:
        home, media_url = self.farm.home, self.farm.environment["EDGE_MEDIA_STORE_URL"]
        nodes = []
        for device, (rate, cap) in NODES.items():
            variables = forwarder_variables(self.logins[device], home, cap)
            self._processes.append(self.farm.run_beside("node-forwarder", device, variables))
            nodes.append({"device": device, "socket": variables["NODE_FORWARDER_SOCKET"], "rate": rate})
        variables = station_variables(self.logins["golden-agent"], home, media_url)
        self._processes.append(self.farm.run_beside("weighvision-agent", "golden-agent", variables))
        sensor, station = (vars(self.logins[name]) for name in ("golden-sensor", "golden-station"))
        task = {"seed": 1, "nodes": nodes, "sensor": sensor, "readings_per_second": 2.0, "station": station,
                "media_url": media_url, "session_seconds": 6.0}  # fmt: skip
        self.generators = Generators(self._work, task)
        self.pump, self.gone, self.scale, self.neighbour = (
            Speaker(self.logins[f"golden-{name}"], self._ledger_file) for name in ("pump", "gone", "scale", "neighbour")
        )
        self.scale.media_url = media_url

    def _people(self) -> None:
        command = self.farm.command_json
        self.credentials["edge"] = command("edge", "add", "edge-2", "--tenant", "demo")
        self.credentials["edge_rotated"] = command("edge", "rotate", "edge-2")
        command("edge", "add", "edge-3", "--tenant", "demo")
        self.farm.command("edge", "revoke", "edge-3")
        self.credentials["viewer"] = command("viewer", "add", "reader", "--tenant", "demo")
        command("viewer", "add", "visitor", "--tenant", "demo", "--expires-days", "1")
        command("viewer", "add", "former", "--tenant", "demo")
        self.farm.command("viewer", "revoke", "former")
        self.credentials["person"] = command("console", "add", "ann", "--role", "operator")
        command("console", "add", "bob", "--role", "viewer", "--tenant", "demo")

    def _other_edge(self) -> None:
        """It sends the cloud aggregates, and keeps its samples."""
        start = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=5)
        payload = {
            "metric_type": "temperature", "aggregation_window": "1m", "unit": "C", "count": 60, "sum_value": 1290.0,
            "avg_value": 21.5, "min_value": 20.0, "max_value": 23.0,
            "bucket_start_at": start.isoformat(), "bucket_end_at": (start + timedelta(minutes=1)).isoformat(),
        }  # fmt: skip
        event = {
            "event_id": str(uuid.uuid4()), "event_type": "telemetry.aggregated", "tenant_id": "demo", "farm_id": "farm-2",
            "barn_id": "barn-1", "device_id": "golden-elsewhere", "occurred_at": start.isoformat(), "payload": payload,
        }  # fmt: skip
        self.farm.post("cloud-ingestion", "/api/v1/edge/batch", {"events": [event]}, self.credentials["edge"]["token"])

    def _traffic(self) -> None:
        for value in range(5):
            self.pump.reading("pressure", 2.0 + value, "bar")
            self.neighbour.reading("temperature", 20.0 + value)
            self.gone.reading("temperature", 10.0 + value)
        self.pump.event("pump.started", {"reason": "schedule"})
        self.gone.close()
        self.farm.command("device", "revoke", "golden-gone")
        self.generators.order(type="poison")
        self.generators.order(type="storm")
        self.generators.order(type="jump", device="golden-node-1", seconds=-7200)
        self.farm.wait_for_rows("edge", "ingress_rejected", rows=5)
        self.farm.wait_for_rows("cloud", "weight_sessions", "device_id = 'golden-station' AND status = 'finalized'", 2)
        self.farm.wait_for_rows("cloud", "weight_sessions", "device_id = 'golden-agent' AND status = 'finalized'", 2)

    def _sessions(self) -> None:
        scale = self.scale
        sessions = {name: str(uuid.uuid4()) for name in ("cancelled", "open", "closed", "pictured", "lacking")}
        for session in sessions.values():
            scale.session_event(session, "weighvision.session.created", {"batch_id": "golden"})
        for name in ("open", "closed", "pictured", "lacking"):
            facts = {"weight_kg": 61.5}
            scale.session_event(sessions[name], "weighvision.weight.recorded", facts, value=61.5)
        scale.session_event(sessions["cancelled"], "weighvision.session.cancelled", {"reason": "it left"})
        scale.capture(sessions["pictured"], jpeg(1))
        loose = scale.upload(jpeg(2), None)
        scale.event("weighvision.image.captured", {"media_id": loose}, media=loose)
        self._finalize(sessions["pictured"], 1)
        never = str(scale.presign(jpeg(3), sessions["lacking"])["media_id"])
        scale.session_event(sessions["lacking"], "weighvision.image.captured", {"media_id": never}, media=never)
        self._finalize(sessions["lacking"], 1)
        self.farm.wait_for_rows("edge", "media_objects", f"id = '{loose}' AND state = 'stored'")
        # Incomplete first, so that its alert is opened and then closed by what the operator says.
        self.farm.wait_for_rows(
            "edge", "weight_sessions", f"id = '{sessions['closed']}' AND incomplete_since IS NOT NULL"
        )
        path = f"/api/v1/weighvision/sessions/{sessions['closed']}"
        self.farm.post(
            "edge-weighvision-session", f"{path}/attach?tenant_id=demo", {"media_id": loose, "reason": "seen"}
        )
        body = {"reason": "the station was replaced", "final_weight_kg": 61.5}
        self.farm.post("edge-weighvision-session", f"{path}/finalize?tenant_id=demo", body)
        self.sessions = sessions

    def _finalize(self, session: str, pictures: int) -> None:
        body = {"image_count": pictures, "final_weight_kg": 61.5}
        self.scale.session_event(session, "weighvision.session.finalized", body, value=61.5)

    def _losses(self) -> None:
        """The way to the broker is cut until a node and a station had to give something up."""
        self.farm.command("demo", "break", "broker")
        wait_for(lambda: self._dropped("golden-node-2"), "golden-node-2 loses samples", 240)
        wait_for(lambda: self._queued("event_type = 'station.loss'"), "golden-agent loses events", 240)
        self.farm.command("demo", "heal", accepted=(0, 1))
        for tier in ("edge", "cloud"):
            self.farm.wait_for_rows(tier, "stream_losses", seconds=240)
            self.farm.wait_for_rows(tier, "station_losses", seconds=240)

    def _dropped(self, device: str) -> int:
        return int(self.spool_status(device).get("dropped_count", 0))

    def spool_status(self, device: str) -> dict[str, Any]:
        path = self.farm.home / "devices" / device / "spool" / "status.json"
        return dict(json.loads(path.read_text())) if path.exists() else {}

    def _queued(self, condition: str, table: str = "events") -> int:
        path = self.farm.home / "devices" / "golden-agent" / "queue" / "queue.db"
        with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0])  # noqa: S608 - ours

    def _pictures(self) -> None:
        self.scale.put(b"this is no picture at all", None)
        self.farm.wait_for_rows("edge", "media_objects", "state = 'refused'")
        self.farm.wait_for_rows("edge", "media_objects", "state = 'missing'", seconds=180)
        self.farm.command("demo", "break", "wan")
        self.farm.freeze("edge-vision-inference")
        session = str(uuid.uuid4())
        self.scale.session_event(session, "weighvision.session.created", {})
        media = self.scale.capture(session, jpeg(4))
        self._finalize(session, 1)
        self.farm.wait_for_rows("edge", "media_transfers", f"media_id = '{media}'")
        # Its bytes are away while the cloud and the model want them, and come back when both have given up.
        objects = Objects(self.farm.environment, "edge")
        key = self.farm.fetch("edge", "SELECT object_key FROM media_objects WHERE id = $1", uuid.UUID(media))[0][
            "object_key"
        ]
        body, content_type = objects.read(key)
        objects.remove(key)
        self.farm.thaw("edge-vision-inference")
        self.farm.wait_for_rows("edge", "inference_jobs", f"media_id = '{media}' AND state = 'failed'")
        self.farm.command("demo", "heal", accepted=(0, 1))
        self.farm.wait_for_rows("edge", "media_transfers", f"media_id = '{media}' AND state = 'failed'", seconds=240)
        objects.write(key, body, content_type)

    def _dead_letters(self) -> None:
        for event_type, services in (
            (BATCHES, ["cloud-telemetry-service", "cloud-analytics-service"]),
            (IMAGES, ["cloud-telemetry-service"]),
            (MEDIA, ["cloud-media-store"]),
            (MEDIA, ["cloud-media-store"]),
        ):
            one = {"message_id": str(uuid.uuid4()), "services": services}
            self.bus.poison(f"farmiq.{event_type.partition('.')[0]}.exchange", event_type, str(one["message_id"]))
            self.poison.append(one)
        self._wait_for_letters("cloud-media-store", 2)
        self.farm.command(
            "dlq", "discard", "--service", "cloud-media-store", "--id", self.poison.pop()["message_id"], "--yes"
        )
        self.farm.command("dlq", "replay", "--service", "cloud-media-store", "--id", self.poison[-1]["message_id"])
        # A good event that the cloud's database refuses for a while.
        rule = "CONSTRAINT golden CHECK (event_type <> 'golden.refused')"
        self.farm.execute("cloud", f"ALTER TABLE device_events ADD {rule} NOT VALID")
        self.replayable.append(self.pump.event("golden.refused", {"why": "the database would not take it"}))
        self._wait_for_letters("cloud-telemetry-service", 3)
        self._wait_for_letters("cloud-media-store", 1)
        self.farm.execute("cloud", "ALTER TABLE device_events DROP CONSTRAINT golden")

    def _wait_for_letters(self, service: str, letters: int) -> None:
        queue = f"farmiq.{service}.dlq.queue"
        wait_for(lambda: self.bus.depth(queue) >= letters, f"{letters} letters in {queue}")

    def _refused_events(self) -> None:
        """Good events that the cloud can't take for a while: the edge gives them up."""
        ids = [str(uuid.uuid4()) for _ in range(3)]
        self._refuse(ids)
        for event_id in ids:
            self.pump.event("golden.late", {"why": "the cloud failed"}, event_id)
        self.farm.wait_for_rows("edge", "sync_outbox", "status = 'dlq' AND event_type = 'golden.late'", 3)
        self.farm.execute("cloud", "ALTER TABLE ingest_dedupe DROP CONSTRAINT golden")

    def _refuse(self, event_ids: list[str]) -> None:
        names = ", ".join(f"'{event_id}'" for event_id in event_ids)
        rule = f"CONSTRAINT golden CHECK (event_id NOT IN ({names}))"
        self.farm.execute("cloud", f"ALTER TABLE ingest_dedupe ADD {rule} NOT VALID")

    def _alerts(self) -> None:
        self.farm.wait_for_rows("edge", "ops_alerts", "status = 'closed'")
        self.farm.wait_for_rows("edge", "ops_alerts", "status = 'open'", 2)
        rows = self.farm.fetch("edge", "SELECT id FROM ops_alerts WHERE status = 'open' ORDER BY opened_at LIMIT 1")
        body = {"by": "ann", "note": "a new camera is on its way"}
        self.farm.post("edge-telemetry-timeseries", f"/api/v1/alerts/{rows[0]['id']}/acknowledge", body)

    def _wait_for_figures(self) -> None:
        for table in ("kpis", "hours", "series", "sessions", "weights", "inferences", "losses", "anomalies"):
            self.farm.wait_for_rows("cloud", f"analytics_{table}", seconds=240)
        for table in ("received_buckets", "sync_batches", "discarded_letters", "recorded_weights", "captured_images"):
            self.farm.wait_for_rows("cloud", table, seconds=240)

    # --- b ---

    def _stall(self) -> None:
        farm = self.farm
        farm.start(SERVICES, _STALLING)
        farm.wait_for_rows("cloud", "media_objects", "state = 'announced'")
        farm.wait_for_rows("edge", "media_transfers", "state = 'sending'")
        farm.wait_for_rows("cloud", "analytics_marks")
        farm.freeze("cloud-telemetry-service")
        farm.freeze("cloud-analytics-service")
        farm.freeze("cloud-media-store")
        moment = farm.fetch("edge", "SELECT now() AS now")[0]["now"].isoformat()
        for event_type in ("telemetry.batch.ingested", "weighvision.weight.recorded", "media.stored"):
            farm.wait_for_rows(
                "edge",
                "sync_outbox",
                f"status = 'acked' AND event_type = '{event_type}' AND updated_at > '{moment}'",
                2,
            )
        event_id = str(uuid.uuid4())
        self._refuse([event_id])
        self.pump.event("golden.parked", {"why": "the cloud failed"}, event_id)
        self._freeze_inference()
        # Often enough that it is still parked when the power fails: each time it waits twice as long.
        farm.wait_for_rows("edge", "sync_outbox", "status = 'pending' AND parked AND attempt_count > 4", seconds=240)
        farm.freeze("cloud-ingestion")
        farm.wait_for_rows("edge", "sync_outbox", "status = 'claimed'", 2)
        farm.cut_power()

    def _freeze_inference(self) -> None:
        """While it looks at pictures: at many once more, and stopped at one moment after the other until it has one in hand."""
        rows = self.farm.fetch("edge", "SELECT media_id FROM inference_jobs WHERE state = 'done' LIMIT 100")
        body = {"tenant_id": "demo", "media_ids": [str(row["media_id"]) for row in rows]}
        pid = self.farm.pid("edge-vision-inference")

        def is_caught() -> bool:
            if not self.farm.count("edge", "inference_jobs", "state IN ('pending', 'running')"):
                self.farm.post("edge-vision-inference", "/api/v1/inference/jobs", body)
            os.kill(pid, signal.SIGSTOP)
            if self.farm.count("edge", "inference_jobs", "state = 'running'"):
                return True
            os.kill(pid, signal.SIGCONT)
            return False

        wait_for(is_caught, "a picture is being looked at")

    # --- c, d, e ---

    def _edge_alone(self) -> None:
        farm = self.farm
        farm.start(_EDGE_ALONE, SETTINGS)
        farm.execute("cloud", "ALTER TABLE ingest_dedupe DROP CONSTRAINT golden")
        farm.wait_for_rows("edge", "sync_outbox", "status = 'pending' AND NOT parked", 20)
        farm.wait_for_rows("edge", "inference_jobs", "state = 'pending'")
        farm.wait_for_rows("edge", "media_transfers", "state = 'pending'")
        self.scale.presign(jpeg(5), None)
        objects = Objects(farm.environment, "cloud")
        rows = farm.fetch(
            "cloud", "SELECT object_key FROM media_objects WHERE state = 'stored' ORDER BY stored_at DESC LIMIT 1"
        )
        objects.remove(rows[0]["object_key"])
        farm.command("media", "check", "--tier", "cloud", "--repair", accepted=(0, 1))
        farm.wait_for_rows("cloud", "media_objects", "state = 'missing'")
        # The broker keeps them for the gateway's session, and writes both to its file when it stops.
        farm.freeze("edge-ingress-gateway")
        published = self.pump.publish_unanswered("pressure", [7.0, 8.0, 9.0])
        farm.stop()
        kept = (farm.home / "mosquitto" / "data" / "mosquitto.db").read_bytes()
        if not all(event_id.encode() in kept for event_id in published):
            raise NotReached("what the broker took while the gateway stood still is not in its file")

    def _write_down(self) -> None:
        self.farm.start((), SETTINGS)
        kinds.check(self.farm)
        capture.databases(self.farm, self.folder)
        capture.bus(self.farm, self.bus, self.folder)
        capture.objects(self.farm, self.folder)
        self.summary = capture.summary(self.farm, self.bus)
        self.farm.stop()

    def _devices_alone(self) -> None:
        dropped = self._dropped("golden-node-2")
        wait_for(lambda: self._dropped("golden-node-2") > dropped, "golden-node-2 loses samples again", 240)
        wait_for(lambda: self._queued("state = 'waiting'", "pictures") > 1, "pictures wait at golden-agent", 240)
        wait_for(
            lambda: self._queued("event_type = 'station.loss' AND state <> 'acked'"),
            "golden-agent gives events up",
            240,
        )
        self.generators.kill()
        for speaker in (self.pump, self.scale, self.neighbour):
            speaker.close()
        for process in self._processes:
            end(process)
        self._processes.clear()

    def clean_up(self, *, purge: bool) -> None:
        """After whatever happened: nothing that was started goes on."""
        for process in self._processes:
            process.kill()
        if hasattr(self, "generators"):
            self.generators.kill()
        self.farm.command("down", *(["--purge", "--yes"] if purge else []), accepted=(0, 1, 3))


def step(text: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {text}\n")
    sys.stdout.flush()


def main() -> None:
    home, folder = (Path(argument).absolute() for argument in sys.argv[1:3])
    folder.mkdir(parents=True, exist_ok=True)
    story = Story(Farm(home), folder)
    try:
        story.run()
    except NotReached as error:
        raise SystemExit(f"no golden farm: {error}") from error
    finally:
        story.clean_up(purge="--keep" not in sys.argv)


if __name__ == "__main__":
    main()
