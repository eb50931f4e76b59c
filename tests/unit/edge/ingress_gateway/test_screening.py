from uuid import uuid4

import msgspec
import pytest

from farmiq.contracts.status import DeviceStatus
from farmiq.edge.ingress_gateway.integrator_events import IntegratorEvent, LoneCapture
from farmiq.edge.ingress_gateway.screening import Refusal, Screened, screen
from farmiq.kit.mqtt import Message
from farmiq.timeseries.samples import SingleReading, StreamBatch
from support.telemetry import (
    ELSEWHERE,
    HERE,
    batch_message,
    loss_message,
    raw_message,
    reading_message,
    status_message,
)
from support.weighing import STATION, Weighing, message_of

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


@pytest.mark.parametrize(
    "fields", [{"ts": "yesterday"}, {"schema_version": "99.0"}, {"payload": 7}, {"tenant_id": "a b"}, {"device_id": 1}]
)
def test_an_envelope_that_is_wrong_is_refused_by_its_id_as_long_as_that_can_be_read(fields: dict[str, object]) -> None:
    """Unanswered, a station would send it again for ever."""
    message, event_id = reading_message(26.4), uuid4()
    assert refused(message.topic, changed(message, event_id=str(event_id), **fields)).event_id == event_id


@pytest.mark.parametrize("event_id", [None, 7, "not-an-id", [], {}])
def test_an_id_that_cannot_be_read_is_not_made_up(event_id: object) -> None:
    message = reading_message(26.4)
    assert refused(message.topic, changed(message, event_id=event_id)).event_id is None


def test_a_body_cannot_speak_for_another_tenant() -> None:
    mine, theirs = reading_message(1.0), reading_message(1.0, ELSEWHERE)
    assert refused(mine.topic, theirs.payload).tenant_id == "demo"


@pytest.mark.parametrize(
    "topic", ["iot/telemetry/demo/farm-1/barn-1", "iot/node-1/ack", "iot/telemetry/a/b/c/d/e/f", "else"]
)
def test_a_topic_that_is_none_of_ours_is_refused(topic: str) -> None:
    assert refused(topic, reading_message(1.0).payload).code == "bad_topic"


def test_an_event_of_an_integrators_own_is_taken_as_it_is() -> None:
    message = reading_message(1.0)
    topic = "iot/event/demo/farm-1/barn-1/node-1/door.opened"
    answer = screen(topic, changed(message, event_type="door.opened", payload={"door": 3, "by": "\u00fc"}))
    assert isinstance(answer, Screened)
    assert isinstance(answer.body, IntegratorEvent)
    assert (answer.body.event_type, bytes(answer.body.payload)) == ("door.opened", '{"door":3,"by":"\u00fc"}'.encode())
    assert answer.is_told_by_id


def test_numbers_are_counted_as_they_are_written_out_and_text_that_looks_like_one_is_not() -> None:
    message = reading_message(1.0)
    topic = "iot/event/demo/farm-1/barn-1/node-1/door.opened"
    harmless = {"hash": "1e99999", "quoted": 'a "1e999999999" b', "n": [1e300] * 3, "back": "\\"}
    assert isinstance(screen(topic, changed(message, event_type="door.opened", payload=harmless)), Screened)
    assert refused(topic, changed(message, event_type="door.opened", payload={"n": [1e300] * 500})).code == "too_large"


def test_a_stations_event_is_its_sessions_and_the_stations_own() -> None:
    weighing = Weighing()
    event = weighing.weight(10, 120.5)
    answer = screened(message_of(event))
    assert answer.body == event
    assert (answer.origin, answer.event_id, answer.ts) == (STATION, event.event_id, event.at)
    other = message_of(event).payload.replace(b'"device_id":"station-1"', b'"device_id":"station-2"')
    foreign = screen(message_of(event).topic, other)
    assert isinstance(foreign, Screened)
    assert (foreign.origin.device_id, foreign.station_id) == ("station-2", "station-1"), "the register decides"


def test_a_picture_without_a_session_comes_on_the_event_topic() -> None:
    message = message_of(Weighing().image(10, 1))
    topic = "iot/event/demo/farm-1/barn-1/station-1/weighvision.image.captured"
    assert isinstance(screened(raw_message(topic, message.payload)).body, LoneCapture)
