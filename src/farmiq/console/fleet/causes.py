"""Why something was lost, as a person reads it. A word that we do not know is shown as it came."""

from typing import Final

NODE_CAUSES: Final[dict[str, str]] = {
    "cap_reached": "the node's disk allowance was full, so the oldest went",
    "aged_out": "held on the node longer than it may be",
    "damaged": "stored on the node and no longer readable",
    "missing": "a file of the node's spool was gone",
    "sync_failed": "the node's disk refused after the sample was taken",
    "spool_gone": "the node's spool was replaced by an empty one, and the edge did not have it yet",
    "not_kept": "the edge was restored and the node no longer had it",
    "no_longer_at_edge": "the cloud lost it, and the edge had deleted its own by then",
    "not_captured": "measured, and the node could not store it in time",
    "discarded": "a person discarded it as a dead letter of the cloud",
}
STATION_CAUSES: Final[dict[str, str]] = {
    "queue_full": "the station's queue of events was full",
    "too_old": "the station could not reach the edge for too long",
    "no_space": "the station had no room for its pictures",
    "retries_exhausted": "the picture was refused too often",
    "rejected": "the edge refused the event for good",
    "damaged": "a file of the station was damaged",
    "not_readable": "not readable: the station has not said why in words that we know",
    "forgotten_by_edge": "the edge was restored and the station no longer had the picture",
    "picture_refused": "the bytes of the picture were no good, and no better ones came",
    "picture_missing": "the edge did not have the picture, and nobody brought it again",
    "discarded": "a person discarded it as a dead letter of the cloud",
}


def cause_of_node(reason: str) -> str:
    return NODE_CAUSES.get(reason, reason)


def cause_of_station(reason: str) -> str:
    return STATION_CAUSES.get(reason, reason)


_REFUSALS: Final = {
    "publish_denied": (
        "messages outside its own topics were refused",
        "Its program names another tenant, farm, barn or device than it was added under. Correct it, or revoke the device.",
    ),
    "subscribe_denied": (
        "subscriptions to topics of others were refused",
        "A device may subscribe to its own acknowledgements only. If its program was not meant to, revoke it.",
    ),
    "login_refused": (
        "logins were refused",
        "Its password is not the one of the last rotation. Rotate it and copy it again.",
    ),
    "retained_removed": (
        "messages that the broker was to keep were removed there",
        "Only a device's status is retained. Switch retain off in its program; the messages themselves were stored.",
    ),
    "connection_replaced": (
        "times another connection with the same login replaced it",
        "Two programs use its login and end each other's connection. Give each a device of its own: farmiq device add.",
    ),
}


_LIMITS: Final = {
    "rate": "it sends too much",
    "streams": "it opens too many streams",
    "disk": "the edge's disk is nearly full",
    "not_provisioned": "it is not registered for the place that it names",
    "stream_of_another_device": "its spool was begun by another device",
    "stream_contradicted": "the edge has other samples under their numbers: its disk was set back, or it was copied",
}


def limit_words(reason: str) -> str:
    """Why the edge does not take messages that their device keeps."""
    return _LIMITS.get(reason, reason)


def refusal_words(kind: str) -> tuple[str, str]:
    """What happened, behind a number, and what to do."""
    return _REFUSALS.get(kind, (kind.replace("_", " "), ""))
