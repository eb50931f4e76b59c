import asyncio
import random
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

from farmiq.device.weighvision_agent.detection import Detector
from farmiq.device.weighvision_agent.drops import Limits
from farmiq.device.weighvision_agent.faults import Faults
from farmiq.device.weighvision_agent.listener import listen
from farmiq.device.weighvision_agent.media_client import MediaClient
from farmiq.device.weighvision_agent.messages import Messages
from farmiq.device.weighvision_agent.photographer import Photographer
from farmiq.device.weighvision_agent.publisher import Publisher
from farmiq.device.weighvision_agent.recorder import Recorder
from farmiq.device.weighvision_agent.scale_watch import ScaleWatch
from farmiq.device.weighvision_agent.schedule import capture_on_schedule
from farmiq.device.weighvision_agent.settings import StationSettings
from farmiq.device.weighvision_agent.station_file import Station, load_station
from farmiq.device.weighvision_agent.status import Figures, goodbye, report
from farmiq.device.weighvision_agent.uploader import Uploader
from farmiq.device.weighvision_agent.weighing import Weigher
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.mqtt import MqttClient, Will
from farmiq.kit.settings import load


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(StationSettings, environ)
    station = load_station(settings.weighvision_station)
    messages = Messages(settings)
    mqtt = MqttClient(
        settings.mqtt_url,
        client_id=settings.device_id,
        subscriptions=[messages.ack_topic],
        # The broker need not keep anything for us: what is not acknowledged is sent again, and answered again.
        clean_session=True,
        will=Will(messages.status_topic, messages.status(goodbye(), life.clock.now())),
    )
    folder = Path(settings.weighvision_queue_dir)
    recorder = await Recorder.open(folder, _limits(settings), messages, life.clock)
    await mqtt.start()
    try:
        await _run(life, settings, station, messages, mqtt, recorder, folder)
    finally:
        await mqtt.stop()
        await recorder.close()


async def _run(
    life: Lifetime,
    settings: StationSettings,
    station: Station,
    messages: Messages,
    mqtt: MqttClient,
    recorder: Recorder,
    folder: Path,
) -> None:
    faults, clock = Faults(), life.clock
    camera = station.camera_plugin.open(station.camera, clock)
    photographer = Photographer(camera, station.camera.timeout_seconds, station.picture, faults, clock)
    detector = Detector(station.session.rules(station.scale))
    scale = ScaleWatch(
        station.scale_plugin.open(station.scale, clock), station.scale.timeout_seconds, detector, faults, clock
    )
    weigher = Weigher(life, station.session, messages, recorder, photographer)
    client = MediaClient(settings.edge_media_store_url, settings.http_token, settings.weighvision_http_seconds)
    uploader = Uploader(life, settings, recorder, client)
    publisher = Publisher(life, settings, mqtt, recorder, random.Random())  # noqa: S311 - spreads load, guards nothing
    figures = Figures(life, settings, faults, weigher, uploader, publisher)
    interrupted = await recorder.run(lambda queue: queue.open_sessions())
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(life.until_stopped(weigher.end_interrupted(interrupted)))
            group.create_task(life.until_stopped(scale.watch(weigher)))
            if station.schedule is not None:
                group.create_task(capture_on_schedule(life, station.schedule, messages, recorder, photographer, scale))
            group.create_task(life.until_stopped(uploader.upload_all()))
            group.create_task(life.until_stopped(uploader.check_all()))
            group.create_task(life.until_stopped(publisher.send_all()))
            group.create_task(life.until_stopped(listen(mqtt, recorder, publisher)))
            group.create_task(recorder.keep_house(life))
            group.create_task(report(life, folder, mqtt, recorder, figures, messages))
    finally:
        await weigher.finish()
        photographer.close()
        scale.close()


def _limits(settings: StationSettings) -> Limits:
    return Limits(
        events_max=settings.weighvision_events_max,
        age_max=timedelta(hours=settings.weighvision_hours_max),
        pictures_bytes_max=settings.weighvision_pictures_bytes_max,
        keep_free_bytes=settings.weighvision_keep_free_bytes,
        keep_acked=timedelta(hours=settings.weighvision_keep_acked_hours),
        attempts_max=settings.weighvision_upload_attempts_max,
    )
