import asyncio
from collections.abc import Mapping
from pathlib import Path

from farmiq import __version__
from farmiq.contracts.status import DeviceStatus
from farmiq.device.node_forwarder.batches import Messages
from farmiq.device.node_forwarder.intake import accept_samples
from farmiq.device.node_forwarder.lanes import Lanes
from farmiq.device.node_forwarder.listener import listen
from farmiq.device.node_forwarder.publisher import Publisher
from farmiq.device.node_forwarder.recorder import Recorder
from farmiq.device.node_forwarder.settings import ForwarderSettings
from farmiq.device.node_forwarder.status import Figures, report
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.mqtt import MqttClient, Will
from farmiq.kit.settings import load


async def serve(environ: Mapping[str, str], life: Lifetime) -> None:
    settings = load(ForwarderSettings, environ)
    messages = Messages(settings, life.clock)
    goodbye = DeviceStatus(state="offline", software_version=__version__)
    mqtt = MqttClient(
        settings.mqtt_url,
        client_id=settings.device_id,
        subscriptions=[messages.ack_topic],
        # The broker need not keep anything for us: after a silence everything unacknowledged is sent and answered again.
        clean_session=True,
        will=Will(messages.status_topic, messages.status(goodbye)),
    )
    recorder = await Recorder.open(settings, life.clock)
    lanes = Lanes(recorder.spool.synced_seq, recorder.spool.acked.seq)
    publisher = Publisher(life, settings, mqtt, recorder, lanes, messages)
    figures = Figures(life, settings, recorder, publisher)
    await mqtt.start()
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(accept_samples(life, Path(settings.node_forwarder_socket), recorder))
            group.create_task(life.until_stopped(publisher.send_live()))
            group.create_task(life.until_stopped(publisher.send_backlog()))
            group.create_task(life.until_stopped(publisher.send_losses()))
            group.create_task(life.until_stopped(listen(mqtt, recorder, lanes, publisher)))
            group.create_task(recorder.sync_behind(life))
            group.create_task(recorder.keep_house(life))
            group.create_task(report(life, settings, mqtt, recorder, figures, messages))
    finally:
        await mqtt.stop()
        await recorder.close()
