"""Why something was lost, as a person reads it. A word that we do not know is shown as it came."""

from typing import Final

NODE_CAUSES: Final[dict[str, str]] = {
    "cap_reached": "the node's disk allowance was full, so the oldest went",
    "aged_out": "held on the node longer than it may be",
    "damaged": "stored on the node and no longer readable",
    "missing": "a file of the node's spool was gone",
    "sync_failed": "the node's disk refused after the sample was taken",
    "not_kept": "the edge was restored and the node no longer had it",
    "not_captured": "measured, and the node could not store it in time",
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
}


def cause_of_node(reason: str) -> str:
    return NODE_CAUSES.get(reason, reason)


def cause_of_station(reason: str) -> str:
    return STATION_CAUSES.get(reason, reason)
