from uuid import uuid4

import msgspec
import pytest

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.ingress_gateway.screening import Refusal, Screened, screen
from farmiq.kit.mqtt import Message
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.telemetry import ELSEWHERE, HERE, batch_message, loss_message, reading_message, status_message

STREAM = uuid4()


def screened(message: Message) -> Screened:
    answer = screen(message.topic, message.payload)
    assert isinstance(answer, Screened), answer
    return answer


def refused(topic: str, payload: bytes) -> Refusal:
    answer = screen(topic, payload)
    assert isinstance(answer, Refusal), answer
    return answer


def changed(message: Message, **fields: object) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(message.payload) | fields)


def test_each_kind_of_message_is_recognised_with_the_place_that_its_topic_names() -> None:
    assert isinstance(screened(batch_message(STREAM, 1, 3)).body, StreamBatch)
    reading = screened(reading_message(26.4)).body
    assert isinstance(reading, SingleReading)
    assert (reading.origin, reading.metric, reading.value, reading.unit) == (HERE, "temperature", 26.4, "C")
    assert screened(loss_message(STREAM, 1, 3)).origin == HERE
    assert screened(status_message(DeviceStatus(state="online"))).body == DeviceStatus(state="online")


def test_a_missing_trace_id_is_made() -> None:
    message = reading_message(1.0)
    bare = {name: value for name, value in msgspec.json.decode(message.payload).items() if name != "trace_id"}
    answer = screen(message.topic, msgspec.json.encode(bare))
    assert isinstance(answer, Screened)
    assert len(answer.trace_id) == 32


@pytest.mark.parametrize(
    ("fields", "code"),
    [
        ({"tenant_id": "other"}, "topic_mismatch"),
        ({"device_id": "node-9"}, "topic_mismatch"),
        ({"event_type": "telemetry.batch"}, "topic_mismatch"),
        ({"payload": {"value": 1.0, "metric_type": "humidity"}}, "topic_mismatch"),
        ({"payload": {"value": "warm"}}, "schema"),
        ({"payload": {}}, "schema"),
        ({"event_id": "7"}, "schema"),
        ({"schema_version": "2.0"}, "unsupported_schema_version"),
    ],
)
def test_what_does_not_fit_is_refused_with_its_reason_and_the_identity_of_the_topic(
    fields: dict[str, object], code: str
) -> None:
    message = reading_message(1.0)
    answer = refused(message.topic, changed(message, **fields))
    assert answer.code == code
    assert (answer.tenant_id, answer.device_id) == ("demo", "node-1")


def test_a_body_cannot_speak_for_another_tenant() -> None:
    mine, theirs = reading_message(1.0), reading_message(1.0, ELSEWHERE)
    assert refused(mine.topic, theirs.payload).tenant_id == "demo"


@pytest.mark.parametrize(
    "topic", ["iot/telemetry/demo/farm-1/barn-1", "iot/node-1/ack", "iot/telemetry/a/b/c/d/e/f", "else"]
)
def test_a_topic_that_is_none_of_ours_is_refused(topic: str) -> None:
    assert refused(topic, reading_message(1.0).payload).code == "bad_topic"


def test_an_event_without_an_owner_here_is_refused() -> None:
    message = reading_message(1.0)
    topic = "iot/event/demo/farm-1/barn-1/node-1/door.opened"
    assert refused(topic, changed(message, event_type="door.opened")).code == "unknown_event_type"
