import pytest
from hypothesis import given
from hypothesis import strategies as st

from farmiq.contracts.decoding import MalformedMessage
from farmiq.contracts.ids import RESERVED_DEVICE_IDS, RESERVED_METRICS, InvalidId
from farmiq.contracts.topics import (
    GATEWAY_FILTERS,
    AckTopic,
    EventTopic,
    StatusTopic,
    TelemetryBatchTopic,
    TelemetryTopic,
    Topic,
    WeighvisionTopic,
    parse,
    shared,
)

SESSION = "018f1a84-bb0e-7d3f-b2e4-9e8b5f8e0300"

ids = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9._-]{0,63}\Z")
device_ids = ids.filter(lambda name: name not in RESERVED_DEVICE_IDS)
metrics = ids.filter(lambda name: name not in RESERVED_METRICS)
event_types = st.lists(st.from_regex(r"\A[A-Za-z0-9_-]{1,20}\Z"), min_size=1, max_size=5).map(".".join)
place = {"tenant_id": ids, "farm_id": ids, "barn_id": ids}
topics: st.SearchStrategy[Topic] = st.one_of(
    st.builds(TelemetryTopic, **place, device_id=device_ids, metric=metrics),
    st.builds(TelemetryBatchTopic, **place, device_id=device_ids),
    st.builds(EventTopic, **place, device_id=device_ids, event_type=event_types),
    st.builds(WeighvisionTopic, **place, station_id=device_ids, session_id=st.uuids(), event_type=event_types),
    st.builds(StatusTopic, **place, device_id=device_ids),
    st.builds(AckTopic, device_id=device_ids),
)


def outcome(path: str) -> str:
    try:
        return parse(path).path
    except MalformedMessage as refused:
        return refused.code


def reaches(topic_filter: str, path: str) -> bool:
    """MQTT's rule for filters that end in `#`."""
    return path.startswith(topic_filter.removesuffix("#"))


@given(topic=topics)
def test_a_topic_is_read_as_it_was_built(topic: Topic) -> None:
    assert parse(topic.path) == topic


@given(topic=topics)
def test_the_gateway_hears_every_topic_of_a_device_once_and_never_its_own_acknowledgements(topic: Topic) -> None:
    heard = [topic_filter for topic_filter in GATEWAY_FILTERS if reaches(topic_filter, topic.path)]
    assert len(heard) == (0 if isinstance(topic, AckTopic) else 1)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("iot/telemetry/demo/farm-1/barn-1/node-1/temperature", TelemetryTopic),
        ("iot/telemetry/demo/farm-1/barn-1/node-1/batch", TelemetryBatchTopic),
        ("iot/event/demo/farm-1/barn-1/node-1/telemetry.loss", EventTopic),
        (f"iot/weighvision/demo/farm-1/barn-1/st-1/session/{SESSION}/weighvision.session.created", WeighvisionTopic),
        ("iot/status/demo/farm-1/barn-1/node-1", StatusTopic),
        ("iot/node-1/ack", AckTopic),
    ],
)
def test_each_documented_topic_is_its_own_kind(path: str, kind: type[Topic]) -> None:
    topic = parse(path)
    assert type(topic) is kind
    assert topic.path == path


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "iot",
        "iot/telemetry",
        "iot/telemetry/demo/farm-1/barn-1/node-1",
        "iot/telemetry/demo/farm-1/barn-1/node-1/temperature/",
        "iot/telemetry/demo/farm-1/barn-1/node-1/a/b",
        "/iot/telemetry/demo/farm-1/barn-1/node-1/temperature",
        "iot/telemetry/demo//barn-1/node-1/temperature",
        "iot/telemetry/demo/../barn-1/node-1/temperature",
        "iot/telemetry/demo/farm-1/barn-1/+/temperature",
        "iot/telemetry/demo/farm-1/barn-1/node-1/#",
        "iot/telemetry/demo/farm-1/barn-1/node-1/temperature\n",
        "iot/telemetry/demo/farm-1/barn-1/node-1/температура",
        f"iot/telemetry/{'t' * 65}/farm-1/barn-1/node-1/temperature",
        "IOT/telemetry/demo/farm-1/barn-1/node-1/temperature",
        "iot/telemetry/demo/farm-1/barn-1/status/temperature",
        "iot/event/demo/farm-1/barn-1/node-1/a..b",
        "iot/event/demo/farm-1/barn-1/node-1/.a",
        f"iot/event/demo/farm-1/barn-1/node-1/{'e' * 129}",
        "iot/weighvision/demo/farm-1/barn-1/st-1/session/not-a-uuid/weighvision.session.created",
        f"iot/weighvision/demo/farm-1/barn-1/st-1/session/{{{SESSION}}}/weighvision.session.created",
        f"iot/weighvision/demo/farm-1/barn-1/st-1/session/{SESSION.replace('-', '')}/weighvision.session.created",
        f"iot/weighvision/demo/farm-1/barn-1/st-1/{SESSION}/weighvision.session.created",
        "iot/status/demo/farm-1/barn-1/node-1/more",
        "iot/other/demo/farm-1/barn-1/node-1/temperature",
        "iot/telemetry/ack",
        "iot/status/ack",
        "iot//ack",
        "x" * 70_000,
    ],
)
def test_another_topic_is_refused(path: str) -> None:
    with pytest.raises(MalformedMessage) as caught:
        parse(path)
    assert caught.value.code == "bad_topic"


@given(
    path=st.text(max_size=60) | st.lists(st.sampled_from(["iot", "telemetry", "batch", "a", "", "ack"])).map("/".join)
)
def test_any_text_is_a_topic_or_is_refused(path: str) -> None:
    assert outcome(path) in {path, "bad_topic"}


@pytest.mark.parametrize("device_id", [*sorted(RESERVED_DEVICE_IDS), "", "a/b", "+", "a\n", "-a"])
def test_no_device_gets_a_name_that_breaks_the_topics(device_id: str) -> None:
    with pytest.raises(InvalidId):
        AckTopic(device_id=device_id)
    with pytest.raises(InvalidId):
        StatusTopic(tenant_id="t", farm_id="f", barn_id="b", device_id=device_id)


def test_no_metric_is_called_batch() -> None:
    with pytest.raises(InvalidId):
        TelemetryTopic(tenant_id="t", farm_id="f", barn_id="b", device_id="d", metric="batch")


def test_replicas_share_the_filters() -> None:
    assert shared("edge-ingress-gateway") == tuple(f"$share/edge-ingress-gateway/{name}" for name in GATEWAY_FILTERS)
    with pytest.raises(InvalidId):
        shared("a/b")
