import asyncio

import pytest
from aiormq.exceptions import AMQPConnectionError, ChannelInvalidStateError

from farmiq.kit.amqp_channel import is_away
from farmiq.kit.amqp_topology import Binding, Queue, Topology, routes


def test_a_queue_with_a_dead_letter_queue_loses_nothing_on_the_way_there() -> None:
    arguments = Queue("ingest", dead_letter_queue="dlq", delivery_limit=20, bytes_max=1_000_000).arguments()

    assert arguments == {
        "x-queue-type": "quorum",
        "x-overflow": "reject-publish",
        "x-dead-letter-exchange": "",
        "x-dead-letter-routing-key": "dlq",
        "x-dead-letter-strategy": "at-least-once",
        "x-delivery-limit": 20,
        "x-max-length-bytes": 1_000_000,
    }


def test_a_plain_queue_refuses_instead_of_dropping() -> None:
    assert Queue("dlq").arguments() == {"x-queue-type": "quorum", "x-overflow": "reject-publish"}


@pytest.mark.parametrize(
    ("error", "is_broker"),
    [
        (AMQPConnectionError("closed"), True),
        (ChannelInvalidStateError("closed"), True),
        (ConnectionResetError(), True),
        (TimeoutError(), True),
        (Exception(), True),  # what aiormq gives to those who wait on a connection that ended without a reason
        (ValueError("routing key too long"), False),
        (KeyError("bug"), False),
    ],
)
async def test_a_broker_that_is_away_is_told_from_a_mistake_of_ours(error: Exception, is_broker: bool) -> None:
    assert is_away(error) == is_broker


async def test_a_cancellation_that_nobody_asked_for_is_the_brokers_and_a_real_one_is_not() -> None:
    assert is_away(asyncio.CancelledError())
    answers: list[bool] = []

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            answers.append(is_away(error))
            raise

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.wait({task})

    assert answers == [False]


ROUTED = Topology(
    queues=(Queue("work"),),
    bindings=(
        Binding("exact", "work", "telemetry.ingested"),
        Binding("any", "work", "#"),
        Binding("deep", "work", "media.#"),
        Binding("one", "work", "media.*"),
        Binding("end", "work", "#.stored"),
    ),
)


@pytest.mark.parametrize(
    ("exchange", "routing_key", "is_routed"),
    [
        ("", "work", True),
        ("", "other", False),
        ("exact", "telemetry.ingested", True),
        ("exact", "telemetry.ingested.twice", False),
        ("exact", "telemetry", False),
        ("any", "", True),
        ("any", "door.opened", True),
        ("deep", "media", True),
        ("deep", "media.a.b", True),
        ("deep", "medias.a", False),
        ("one", "media", False),
        ("one", "media.a", True),
        ("one", "media.a.b", False),
        ("end", "stored", True),
        ("end", "media.picture.stored", True),
        ("end", "media.stored.again", False),
        ("unknown", "media.stored", False),
    ],
)
def test_a_message_that_should_reach_a_queue_is_told_from_one_that_nobody_wants(
    exchange: str, routing_key: str, is_routed: bool
) -> None:
    assert routes(ROUTED, exchange, routing_key) == is_routed
