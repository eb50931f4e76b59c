"""Weigh sessions: a gallery, and one session with its pictures, weights and predictions, and where what is missing is."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Annotated, Any, Final, Literal
from uuid import UUID

from litestar import Response, get, post
from litestar.di import NamedDependency, Provide
from litestar.params import FromPath, QueryParameter
from litestar.response import Redirect
from msgspec import Struct

from farmiq.console.addresses import address, linker
from farmiq.console.chart import Chart
from farmiq.console.csv_export import csv_response
from farmiq.console.curves.choosing import AskedTier
from farmiq.console.desk import AnyRequest, Desk, Page, Place
from farmiq.console.neighbours import Away, Refused
from farmiq.console.ranges import LENGTHS, TimeRange, time_range
from farmiq.console.weighings import story
from farmiq.console.weighings.answers import Status
from farmiq.console.weighings.asking import CLOUD, EDGE, Answered, Filter, Gallery, gallery, look_again, one_session
from farmiq.console.weighings.cards import CSV_COLUMNS, Card
from farmiq.console.weighings.picture_files import PictureFile, first_of, thumbnail, whole
from farmiq.console.weighings.whereabouts import ShownPicture, Sources, pictures_shown, sentence_of
from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.http_server import ApiError

CARDS: Final = 24
CSV_PAGE: Final = 500
CSV_ROWS_MAX: Final = 100_000
LENGTH: Final = "24h"
NO_PICTURE: Final = "/static/no-picture.svg"
PICTURE_HEADERS: Final = {"cache-control": "private, max-age=3600", "content-security-policy": "default-src 'none'"}

AnyState = Annotated[Literal["", "created", "finalized", "cancelled", "incomplete"], QueryParameter(name="status")]
AnyId = Annotated[str, QueryParameter(pattern=rf"^\Z|{ID_PATTERN}", max_length=64)]
AnyDay = Annotated[str, QueryParameter(name="day", pattern=r"^(\d{4}-\d{2}-\d{2})?\Z")]
AnyLength = Annotated[str | None, QueryParameter(name="range", max_length=8)]
At = Annotated[datetime | None, QueryParameter()]
AskedOf = Annotated[AskedTier, QueryParameter(name="tier")]
After = Annotated[str | None, QueryParameter(max_length=1024)]


class Asked(Struct, frozen=True, kw_only=True):
    state: str
    device: str
    batch: str
    day: str
    time: TimeRange
    tier: AskedTier

    def filter(self) -> Filter:
        statuses: dict[str, Status] = {"created": "created", "finalized": "finalized", "cancelled": "cancelled"}
        return Filter(
            since=self.time.since,
            until=self.time.until,
            status=statuses.get(self.state),
            is_incomplete=self.state == "incomplete",
            device_id=self.device or None,
            batch_id=self.batch or None,
        )

    def parameters(self, *, is_fixed: bool = False) -> dict[str, Any]:
        is_fixed = is_fixed or (self.time.name is None and not self.day)
        return {
            "status": self.state,
            "device": self.device,
            "batch": self.batch,
            "day": None if is_fixed else self.day,
            "tier": None if self.tier == "auto" else self.tier,
            "range": None if is_fixed else self.time.name,
            "since": self.time.since.isoformat() if is_fixed else None,
            "until": self.time.until.isoformat() if is_fixed else None,
        }


def routes(desk: Desk) -> list[Any]:
    return [*gallery_routes(desk), *session_routes(desk), *picture_routes(desk)]


def gallery_routes(desk: Desk) -> list[Any]:
    async def asked_for(
        having: AnyState = "",
        device: AnyId = "",
        batch: AnyId = "",
        day: AnyDay = "",
        length: AnyLength = None,
        since: At = None,
        until: At = None,
        tier: AskedOf = "auto",
    ) -> Asked:
        shown = day_range(day) if day else time_range(length, since, until, desk.clock.now(), default=LENGTH)
        return Asked(state=having, device=device, batch=batch, day=day, time=shown, tier=tier)

    async def found(request: AnyRequest, asked: Asked, after: str | None) -> Gallery | Away | Refused:
        try:
            return await gallery(desk.neighbours, desk.tenant(request), asked.filter(), asked.tier, after, CARDS)
        except (Away, Refused) as error:
            return error

    given = {"asked": Provide(asked_for)}

    @get("/sessions", dependencies=given)
    async def sessions(request: AnyRequest, asked: NamedDependency[Asked], after: After = None) -> Page:
        shown = await found(request, asked, after)
        fixed = asked.parameters(is_fixed=True)
        return desk.show(
            request,
            "sessions.html",
            asked=asked,
            after=after,
            found=shown if isinstance(shown, Gallery) else None,
            trouble=None if isinstance(shown, Gallery) else shown,
            lengths=LENGTHS,
            link=linker("/sessions", asked.parameters()),
            csv_address=address("/sessions/list.csv", fixed),
            permalink=address("/sessions", fixed),
        )

    @get("/sessions/cards", dependencies=given)
    async def cards(request: AnyRequest, asked: NamedDependency[Asked]) -> Page:
        """The first page again, for whoever keeps it open."""
        shown = await found(request, asked, None)
        return desk.show(
            request,
            "sessions_cards.html",
            found=shown if isinstance(shown, Gallery) else None,
            trouble=None if isinstance(shown, Gallery) else shown,
            link=linker("/sessions", asked.parameters()),
        )

    @get("/sessions/list.csv", dependencies=given)
    async def listed(request: AnyRequest, asked: NamedDependency[Asked]) -> Response[bytes]:
        rows: list[Card] = []
        after: str | None = None
        while len(rows) <= CSV_ROWS_MAX:
            page = await gallery(desk.neighbours, desk.tenant(request), asked.filter(), asked.tier, after, CSV_PAGE)
            rows += page.cards
            if (after := page.next) is None:
                break
        return csv_response("weigh-sessions", CSV_COLUMNS, (card.row() for card in rows), rows_max=CSV_ROWS_MAX)

    return [sessions, cards, listed]


def session_routes(desk: Desk) -> list[Any]:
    @get("/sessions/{session_id:uuid}")
    async def session(request: AnyRequest, session_id: FromPath[UUID]) -> Page:
        told = await one_session(desk.neighbours, desk.tenant(request), session_id)
        return desk.show(request, "session.html", **_shown(told, session_id))

    @get("/sessions/{session_id:uuid}/state")
    async def state(request: AnyRequest, session_id: FromPath[UUID]) -> Page:
        told = await one_session(desk.neighbours, desk.tenant(request), session_id)
        return desk.show(request, "session_state.html", **_shown(told, session_id))

    @get("/sessions/{session_id:uuid}/data")
    async def data(request: AnyRequest, session_id: FromPath[UUID]) -> Chart:
        told = await one_session(desk.neighbours, desk.tenant(request), session_id)
        facts = _facts(told, session_id)
        taken_at = {one.media_id: one.captured_at for one in _pictures(told, facts) if one.media_id and one.captured_at}
        return story.chart_of(facts, taken_at)

    @post("/sessions/{session_id:uuid}/look-again", status_code=303)
    async def again(request: AnyRequest, session_id: FromPath[UUID]) -> Redirect:
        """Have the model at work look at the session's pictures again."""
        tenant_id = desk.tenant(request)
        told = await one_session(desk.neighbours, tenant_id, session_id)
        media_ids = [picture.media_id for picture in (told.edge.pictures if told.edge else ())]
        if not media_ids:
            raise ApiError(409, "no_pictures", "The edge has no picture of this session that could be looked at")
        async with desk.deed(request, "inference.again", str(session_id), pictures=len(media_ids)) as deed:
            accepted = await look_again(desk.neighbours, tenant_id, media_ids)
            deed.outcome = f"{len(accepted.job_ids)} pictures asked for, {len(accepted.unknown)} not stored"
        return Redirect(f"/sessions/{session_id}?asked={len(accepted.job_ids)}", status_code=303)

    return [session, state, data, again]


def picture_routes(desk: Desk) -> list[Any]:
    @get("/pictures/{media_id:uuid}")
    async def picture(request: AnyRequest, media_id: FromPath[UUID]) -> Response[bytes]:
        return _sent(await whole(desk.neighbours, desk.tenant(request), media_id))

    @get("/pictures/{media_id:uuid}/thumbnail")
    async def small(request: AnyRequest, media_id: FromPath[UUID]) -> Response[bytes]:
        return _sent(await thumbnail(desk.neighbours, desk.tenant(request), media_id))

    @get("/sessions/{session_id:uuid}/thumbnail")
    async def of_session(request: AnyRequest, session_id: FromPath[UUID]) -> Response[Any]:
        """Any of its pictures; a drawing that says so where there is none yet."""
        tenant_id = desk.tenant(request)
        media_id = await first_of(desk.neighbours, tenant_id, session_id)
        if media_id is None:
            return Redirect(NO_PICTURE, status_code=303)
        return _sent(await thumbnail(desk.neighbours, tenant_id, media_id))

    return [picture, small, of_session]


def day_range(day: str) -> TimeRange:
    """One day, in UTC."""
    try:
        begin = datetime.combine(date.fromisoformat(day), time(), UTC)
        return TimeRange(begin, begin + timedelta(days=1), None)
    except (ValueError, OverflowError) as error:
        raise ApiError(400, "bad_day", "There is no such day") from error


def _shown(told: Answered, session_id: UUID) -> dict[str, Any]:
    """What both templates of a session are given."""
    facts = _facts(told, session_id)
    pictures = _pictures(told, facts)
    results = story.compared(facts)
    is_settled = told.cloud is not None and all(one.where.place == "cloud" for one in pictures)
    return {
        "facts": facts,
        "edge": told.edge,
        "cloud": told.cloud,
        "cloud_answers": told.has_answered(CLOUD),
        "troubles": told.troubles,
        "pictures": pictures,
        "sentence": sentence_of(facts.expected, pictures),
        "steps": story.steps_of(facts, told.edge, told.cloud),
        "results": results,
        "agreement": story.agreement(results),
        "jobs": {job.media_id: job for job in told.jobs},
        "is_settled": is_settled and facts.status != "created",
    }


def _facts(told: Answered, session_id: UUID) -> story.Facts:
    facts = story.facts_of(told.edge, told.cloud)
    if facts is not None:
        return facts
    if told.troubles:
        raise told.troubles[0]
    raise ApiError(404, "unknown_session", f"There is no session {session_id}")


def _pictures(told: Answered, facts: story.Facts) -> list[ShownPicture]:
    sources = Sources(edge=told.has_answered(EDGE), cloud=told.has_answered(CLOUD))
    at_edge = told.edge.pictures if told.edge else []
    in_cloud = told.cloud.pictures.pictures if told.cloud else []
    return pictures_shown(at_edge, told.transfers, in_cloud, facts.expected, sources)


def _sent(file: PictureFile) -> Response[bytes]:
    return Response(file.body, media_type=file.content_type, headers=PICTURE_HEADERS)


PLACE = Place("sessions", "Weigh sessions", "/sessions", routes)
