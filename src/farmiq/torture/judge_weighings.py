"""Compares weigh sessions, their pictures and what the model said of them with the ledger, at one tier. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from farmiq.contracts import event_types
from farmiq.timeseries.stream import Origin
from farmiq.torture.judge import Ledger, Tally, blame_repeated
from farmiq.torture.ledger import Picture
from farmiq.torture.station import BATCH, JPEG

STORED = "stored"


class FoundSession(NamedTuple):
    session: UUID
    origin: Origin
    status: str
    start_us: int | None
    end_us: int | None
    batch: str | None
    initial_kg: float | None
    final_kg: float | None
    images: int | None
    inference: UUID | None


@dataclass(frozen=True)
class Expected:
    """What the ledger says of every session that was weighed to its end, and which were only begun. `results` are the ids of what
    a model said of each picture, at the edge."""

    sessions: Mapping[UUID, FoundSession]
    media: Mapping[UUID, Sequence[UUID]]
    begun: Set[UUID] = frozenset()
    results: Mapping[UUID, Set[UUID]] = field(default_factory=dict)

    def may_speak(self, session: UUID, inference: UUID | None) -> bool:
        """For a session speaks one of the results of its pictures, if there are any."""
        results = {result for media in self.media[session] for result in self.results.get(media, ())}
        return inference in results if results else inference is None


def expected_sessions(ledger: Ledger, origins: Mapping[str, Origin], results: Mapping[UUID, Set[UUID]]) -> Expected:
    times = {(event.session, event.event_type): event.at_us for event in ledger.said.values() if event.session}
    sessions = {
        session: FoundSession(
            session, origins[one.device], "finalized",
            times.get((session, event_types.SESSION_CREATED)), times.get((session, event_types.SESSION_FINALIZED)),
            BATCH, one.weight_kg, one.weight_kg, len(one.media), None,
        )
        for session, one in ledger.weighed.items()
    }  # fmt: skip
    begun = {event.session for event in ledger.said.values() if event.session is not None}
    return Expected(sessions, {id_: one.media for id_, one in ledger.weighed.items()}, begun, results)


def judge_sessions(expected: Expected, found: Sequence[FoundSession]) -> Tally:
    """`found` are all of the stations in question, also those that nobody weighed. Of those begun, not every one was weighed to
    its end."""
    tally = Tally(accepted=len(expected.sessions))
    blame_repeated(tally, "session", (row.session for row in found))
    rows = {row.session: row for row in found}
    for session in rows.keys() - expected.begun - expected.sessions.keys():
        tally.blame("never_sent", f"session {session}: {rows[session]}")
    for session, said in expected.sessions.items():
        row = rows.get(session)
        if row is None:
            tally.blame("lost", f"session {session}")
        elif row._replace(inference=None) != said:
            tally.blame("altered", f"{row} instead of {said}")
        elif not expected.may_speak(session, row.inference):
            tally.blame("altered", f"session {session} names {row.inference}, which is no result of its pictures")
        else:
            tally.stored += 1
    return tally


class FoundPicture(NamedTuple):
    """`sha256` is that of the bytes in the tier's object store; None when they could not be read."""

    media: UUID
    origin: Origin
    session: UUID | None
    state: str
    sha256: str | None
    size_bytes: int | None
    captured_us: int
    mime: str


def judge_pictures(
    taken: Mapping[UUID, Picture], announced: Set[UUID], origin: Origin, found: Sequence[FoundPicture]
) -> Tally:
    """Of all that were `taken`, those `announced` were accepted. `found` are all of the station in question. The same bytes of
    the same session under another id are that picture once more. A URL that was signed and never used is no picture."""
    expected = {media: picture for media, picture in taken.items() if media in announced}
    tally = Tally(accepted=len(expected))
    blame_repeated(tally, "picture", (row.media for row in found))
    contents = {(picture.session, picture.sha256) for picture in taken.values()}
    for row in found:
        if row.media not in taken and row.sha256 is not None:
            is_known = (row.session, row.sha256) in contents
            tally.blame("duplicated" if is_known else "never_sent", f"picture {row.media}: {row}")
    rows = {row.media: row for row in found}
    for media, one in expected.items():
        found_row = rows.get(media)
        said = FoundPicture(media, origin, one.session, STORED, one.sha256, one.size_bytes, one.captured_us, JPEG)
        if found_row is None or found_row.state != STORED or found_row.sha256 is None:
            tally.blame("lost", f"picture {media}: {found_row}")
        elif found_row != said:
            tally.blame("altered", f"{found_row} instead of {said}")
        else:
            tally.stored += 1
    return tally


class FoundResult(NamedTuple):
    """What a model said of a picture."""

    result: UUID
    origin: Origin
    session: UUID | None
    media: UUID | None
    weight_kg: float | None
    size: str | None
    confidence: float | None
    model: str
    at_us: int


def judge_results(
    accepted: Mapping[UUID, Picture],
    taken: Set[UUID],
    made: Sequence[FoundResult],
    found: Sequence[FoundResult],
    models: int,
) -> Tally:
    """The edge makes them, so its rows are the measure of the other tier's. With a model at work, every picture that was accepted
    has one result of each model that looked, of its own session."""
    tally = Tally(accepted=len(made))
    blame_repeated(tally, "result", (row.result for row in found))
    expected = {row.result: row for row in made}
    rows = {row.result: row for row in found}
    for result, row in rows.items():
        if result not in expected or row.media not in taken:
            tally.blame("never_sent", f"{row}")
    times = Counter((row.media, row.model) for row in rows.values())
    if len(times) < len(rows):
        tally.blame("duplicated", "a model has looked at a picture twice", len(rows) - len(times))
    for media in accepted.keys() - {media for media, _ in times} if models else ():
        tally.blame("lost", f"no result of picture {media}")
    sessions: dict[UUID | None, UUID | None] = {media: one.session for media, one in accepted.items()}
    for result, said in expected.items():
        if result not in rows:
            tally.blame("lost", f"{said}")
        elif rows[result] != said or sessions.get(said.media, said.session) != said.session:
            tally.blame("altered", f"{rows[result]} instead of {said}")
        else:
            tally.stored += 1
    return tally
