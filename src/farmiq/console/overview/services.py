"""What each service is for, what its absence means, and the command that helps. Pure data, for the first page and for Health."""

from typing import Final

from msgspec import Struct


class Meaning(Struct, frozen=True):
    does: str
    away: str


_MEANINGS: Final = {
    "edge-ingress-gateway": Meaning(
        "takes what devices send and acknowledges it once it is stored",
        "Devices keep what they measure on their own disks and send it later.",
    ),
    "edge-telemetry-timeseries": Meaning(
        "answers for what is stored on the edge",
        "Samples are still taken and sent; they can't be looked at here.",
    ),
    "edge-weighvision-session": Meaning(
        "keeps weigh sessions together and notices what is missing of them",
        "Events of weigh sessions are still stored; sessions are not closed meanwhile.",
    ),
    "edge-media-store": Meaning(
        "takes pictures into the edge's object store",
        "Weigh stations keep their pictures and upload them later.",
    ),
    "edge-vision-inference": Meaning(
        "tells weights from pictures",
        "Pictures wait to be looked at; nothing else waits for them.",
    ),
    "edge-sync-forwarder": Meaning(
        "sends what the edge has to the cloud",
        "Everything waits safely on the edge until it is back.",
    ),
    "cloud-ingestion": Meaning(
        "is the cloud's only entrance for edges",
        "The edges keep everything and try again.",
    ),
    "cloud-telemetry-service": Meaning(
        "stores what arrives in the cloud and answers for it",
        "What arrives waits in RabbitMQ.",
    ),
    "cloud-analytics-service": Meaning(
        "computes growth, comfort and anomalies",
        "Figures of barns get old; nothing is lost.",
    ),
    "cloud-media-store": Meaning(
        "takes pictures into the cloud's object store",
        "Pictures wait on the edge.",
    ),
    "console": Meaning("shows all this", "Nobody sees this page."),
}
_UNKNOWN: Final = Meaning("", "")

CHECKS: Final = {
    "database": "Its PostgreSQL does not answer. Everything before it waits and tries again.",
    "broker": "The MQTT broker does not answer. Devices keep what they measure.",
    "bus": "RabbitMQ does not answer. The edges keep what the cloud can't take.",
    "model": "It has no model that it could load. Pictures wait to be looked at.",
    "object_store": "The object store does not answer. Pictures wait where they are.",
    "service": "It is being stopped or started.",
}
"""What it means that a readiness check fails."""


def meaning_of(service: str) -> Meaning:
    return _MEANINGS.get(service, _UNKNOWN)
