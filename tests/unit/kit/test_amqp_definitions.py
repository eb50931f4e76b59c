import copy
from typing import Any

import pytest

from farmiq.kit.amqp_definitions import Finding, compare, definitions
from farmiq.kit.amqp_topology import Binding, Exchange, Queue, Topology, without

TOPOLOGY = Topology(
    exchanges=(Exchange("farm.exchange"),),
    queues=(Queue("farm.dlq.queue"), Queue("farm.work.queue", dead_letter_queue="farm.dlq.queue", delivery_limit=3)),
    bindings=(Binding("farm.exchange", "farm.work.queue", "telemetry.#"),),
)


def changed(part: str, number: int, **changes: Any) -> dict[str, Any]:
    document = copy.deepcopy(definitions(TOPOLOGY, "/"))
    document[part][number] |= changes
    return document


def test_what_was_written_down_has_no_difference_from_what_it_was_written_from() -> None:
    assert compare(TOPOLOGY, definitions(TOPOLOGY, "/"), "/") == []


def test_another_virtual_host_is_another_world() -> None:
    found = compare(TOPOLOGY, definitions(TOPOLOGY, "elsewhere"), "/")

    assert [(one.kind, one.state) for one in found] == [
        ("exchange", "missing"),
        ("queue", "missing"),
        ("queue", "missing"),
        ("binding", "missing"),
    ]


def test_a_document_of_one_virtual_host_names_none() -> None:
    document = definitions(TOPOLOGY, "/")
    for part in ("exchanges", "queues", "bindings"):
        document[part] = [{name: value for name, value in one.items() if name != "vhost"} for one in document[part]]

    assert compare(TOPOLOGY, document, "any") == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            changed("exchanges", 0, type="fanout"),
            Finding("exchange", "farm.exchange", "different", "type is fanout and should be topic"),
        ),
        (
            changed("queues", 0, arguments={"x-queue-type": "classic"}),
            Finding(
                "queue",
                "farm.dlq.queue",
                "different",
                "x-overflow is not set and should be reject-publish; x-queue-type is classic and should be quorum",
            ),
        ),
        (
            changed("queues", 0, arguments=Queue("x").arguments() | {"x-max-length": 5}),
            Finding("queue", "farm.dlq.queue", "different", "x-max-length is 5 and should be not set"),
        ),
    ],
)
def test_other_settings_are_named_one_by_one(document: dict[str, Any], expected: Finding) -> None:
    assert compare(TOPOLOGY, document, "/") == [expected]


def test_a_binding_that_was_changed_is_one_that_is_missing_and_one_that_is_not_expected() -> None:
    found = compare(TOPOLOGY, changed("bindings", 0, routing_key="#"), "/")

    assert [(one.state, one.name) for one in found] == [
        ("missing", "farm.exchange -> farm.work.queue (telemetry.#)"),
        ("unexpected", "farm.exchange -> farm.work.queue (#)"),
    ]


def test_of_other_queues_only_those_with_our_names_are_our_business() -> None:
    document = definitions(TOPOLOGY, "/")
    document["queues"] += [{"name": "farm.old-retry-1s.queue"}, {"name": "somebody.queue"}]
    document["bindings"].append(
        {"source": "", "destination": "farm.work.queue", "destination_type": "queue", "routing_key": "farm.work.queue"}
    )

    assert compare(TOPOLOGY, document, "/", own=("farm.",)) == [
        Finding("queue", "farm.old-retry-1s.queue", "unexpected")
    ]
    assert compare(TOPOLOGY, document, "/") == []


def test_a_topology_without_a_queue_has_no_binding_to_it() -> None:
    left = without(TOPOLOGY, {"farm.work.queue"})

    assert [queue.name for queue in left.queues] == ["farm.dlq.queue"]
    assert left.bindings == ()
    assert left.exchanges == TOPOLOGY.exchanges
