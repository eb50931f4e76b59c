"""Where each picture of a session is: on the station, in the edge, in the cloud, or nowhere any more. Pure.

Nobody knows it alone. The station's word and the upload are known to edge-weighvision-session, the way to the cloud to
edge-sync-forwarder, and what arrived to the cloud. A tier that does not answer leaves a question open, and the sentence says so.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final, Literal
from uuid import UUID

from msgspec import Struct

from farmiq.console.weighings.answers import CloudPicture, EdgePicture, Transfer

Place = Literal["cloud", "edge", "station", "nowhere", "unknown"]
Kind = Literal["good", "busy", "warn", "bad", "none"]


class Whereabouts(Struct, frozen=True):
    """`is_visible`: its bytes can be asked for."""

    place: Place
    kind: Kind
    sentence: str
    is_visible: bool = False


class Sources(Struct, frozen=True):
    """Who answered. A picture that an answering tier does not know of is not there."""

    edge: bool
    cloud: bool


class ShownPicture(Struct, frozen=True, kw_only=True):
    """`number` counts the session's pictures in the order in which they were taken. `media_id` is None for one of which nobody
    has heard: only the station's count says that it exists."""

    number: int
    media_id: UUID | None
    where: Whereabouts
    captured_at: datetime | None = None
    size_bytes: int | None = None

    @property
    def is_present(self) -> bool:
        return self.where.place in {"edge", "cloud"}


NOT_HEARD_OF: Final = Whereabouts(
    "station", "warn", "not announced yet: on the station, or given up there (the page Losses would say so)"
)
_BEFORE_THE_EDGE: Final[Mapping[str, Whereabouts]] = {
    "not_announced": Whereabouts(
        "station", "busy", "the station asked where to upload it, and has not said yet that it did: on the station"
    ),
    "not_verified": Whereabouts("edge", "busy", "announced by the station; the edge has not looked at it yet"),
    "not_uploaded": Whereabouts("station", "warn", "announced by the station, upload not seen yet: on the station"),
    "missing": Whereabouts(
        "nowhere", "bad", "announced by the station, and it never came: the edge has given up waiting"
    ),
}


def where_is(
    edge: EdgePicture | None, transfer: Transfer | None, cloud: CloudPicture | None, sources: Sources
) -> Whereabouts:
    if cloud is not None and cloud.state == "stored":
        return Whereabouts("cloud", "good", "in the cloud", is_visible=True)
    if edge is None:
        return _without_edge(cloud, sources)
    if edge.where in _BEFORE_THE_EDGE:
        return _BEFORE_THE_EDGE[edge.where]
    if edge.where == "refused":
        return Whereabouts(
            "nowhere", "bad", f"came to the edge and was refused: {edge.reason or 'no reason was given'}"
        )
    if edge.where == "deleted":
        return _after_the_edge(sources)
    return _on_the_way(transfer, cloud, sources)


def pictures_shown(
    edge: Sequence[EdgePicture],
    transfers: Sequence[Transfer],
    cloud: Sequence[CloudPicture],
    expected: int | None,
    sources: Sources,
) -> list[ShownPicture]:
    """Every picture that anybody knows of, in the order in which they were taken, and then those that are only counted."""
    at_edge = {picture.media_id: picture for picture in edge}
    under_way = {transfer.media_id: transfer for transfer in transfers}
    in_cloud = {picture.media_id: picture for picture in cloud}
    known = [
        (_taken_at(at_edge.get(media_id), in_cloud.get(media_id)), media_id)
        for media_id in at_edge.keys() | in_cloud.keys()
    ]
    shown: list[ShownPicture] = []
    for taken_at, media_id in sorted(known, key=lambda one: (one[0] is None, one[0] and one[0].timestamp(), one[1])):
        ours, theirs = at_edge.get(media_id), in_cloud.get(media_id)
        shown.append(
            ShownPicture(
                number=len(shown) + 1,
                media_id=media_id,
                where=where_is(ours, under_way.get(media_id), theirs, sources),
                captured_at=taken_at,
                size_bytes=next((one.size_bytes for one in (ours, theirs) if one and one.size_bytes), None),
            )
        )
    unheard = range(len(shown) + 1, (expected or 0) + 1)
    return shown + [ShownPicture(number=number, media_id=None, where=NOT_HEARD_OF) for number in unheard]


def sentence_of(expected: int | None, pictures: Sequence[ShownPicture]) -> str:
    """How many there are to be, how many are here, and where each of the others is."""
    present = sum(picture.is_present for picture in pictures)
    said = "How many there will be is not known yet" if expected is None else f"Expected {expected}"
    absent = [f"picture {picture.number}: {picture.where.sentence}" for picture in pictures if not picture.is_present]
    return "; ".join([f"{said}, present {present}", *absent]) + "."


def _without_edge(cloud: CloudPicture | None, sources: Sources) -> Whereabouts:
    if not sources.edge:
        told = "the cloud was told of it and does not have it yet" if cloud else "not in the cloud"
        return Whereabouts("unknown", "warn", f"{told}; the edge, which would know more, does not answer")
    if cloud is not None and cloud.state == "missing":
        return Whereabouts("nowhere", "bad", "the cloud had it and lost it, and the edge does not have it any more")
    return Whereabouts("unknown", "warn", "the station told of it, and the edge does not know of it any more")


def _after_the_edge(sources: Sources) -> Whereabouts:
    if not sources.cloud:
        return Whereabouts("unknown", "none", "removed from the edge after its time; the cloud does not answer")
    return Whereabouts("nowhere", "bad", "removed from the edge after its time, and not in the cloud")


def _on_the_way(transfer: Transfer | None, cloud: CloudPicture | None, sources: Sources) -> Whereabouts:
    kind, sentence = _way(transfer, cloud, sources)
    return Whereabouts("edge", kind, sentence, is_visible=True)


def _way(transfer: Transfer | None, cloud: CloudPicture | None, sources: Sources) -> tuple[Kind, str]:
    match transfer:
        case None:
            return "busy", f"in the edge, not yet in the cloud{'' if sources.cloud else ' (the cloud does not answer)'}"
        case Transfer(state="failed"):
            why = f"{transfer.last_error_code or 'no code'}: {transfer.last_error_message or 'no message'}"
            given_up = f"sending was given up after {transfer.attempt_count} attempts ({why})"
            return "bad", f"in the edge; {given_up}. Redrive it on the page Sync"
        case Transfer(state="sending"):
            return "busy", "in the edge, on its way to the cloud now"
        case Transfer(state="sent"):
            return _sent(cloud, sources)
    if transfer.attempt_count:
        why = f"{transfer.attempt_count} attempts so far, last {transfer.last_error_code or 'without a code'}"
        return "warn", f"in the edge, not yet in the cloud: {why}"
    return "busy", "in the edge, not yet in the cloud: it waits for its turn"


def _sent(cloud: CloudPicture | None, sources: Sources) -> tuple[Kind, str]:
    if not sources.cloud:
        return "good", "in the edge, and sent to the cloud, which does not answer just now"
    if cloud is not None and cloud.state == "missing":
        return "warn", "in the edge; the cloud had it and lost it, and will ask for it again"
    return "busy", "in the edge, and sent; the cloud has not counted it yet"


def _taken_at(edge: EdgePicture | None, cloud: CloudPicture | None) -> datetime | None:
    told = edge and (edge.captured_at or edge.announced_at)
    return told or (cloud.captured_at if cloud else None)
