"""The bytes of pictures. They come through the console: a browser that may see the page talks to nobody else."""

from typing import Final
from uuid import UUID

from msgspec import Struct

from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.console.weighings.answers import CloudMediaPage, EdgeMediaPage, MediaUrl
from farmiq.kit.http_client import Answer
from farmiq.kit.http_server import ApiError

EDGE: Final = "edge-media-store"
CLOUD: Final = "cloud-media-store"
SHOWN_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/webp"})
"""What a browser may be given: pictures that hold nothing that runs."""
THUMBNAIL_BYTES_MAX: Final = 1 << 20
STORED: Final = "stored"


class PictureFile(Struct, frozen=True):
    content_type: str
    body: bytes


class NotShown(ApiError):
    """The picture is not here, or is of a kind that is not shown."""

    def __init__(self, why: str) -> None:
        super().__init__(404, "picture_not_shown", why)


async def thumbnail(neighbours: Neighbours, tenant_id: str, media_id: UUID) -> PictureFile:
    """A small one from the cloud; while it is not there, the whole one from the edge."""
    try:
        answer = await neighbours.ask(
            CLOUD, "GET", f"/api/v1/media/{media_id}/thumbnail", parameters={"tenant_id": tenant_id},
            answer_bytes_max=THUMBNAIL_BYTES_MAX,
        )  # fmt: skip
    except (Away, Refused):
        return await whole(neighbours, tenant_id, media_id)
    return shown(answer)


async def whole(neighbours: Neighbours, tenant_id: str, media_id: UUID) -> PictureFile:
    """From the edge, which is near, or from the cloud, which keeps it longer."""
    for service in (EDGE, CLOUD):
        try:
            signed = await neighbours.get(service, f"/api/v1/media/{media_id}/url", MediaUrl, tenant_id=tenant_id)
            return shown(await neighbours.picture(signed.url))
        except (Away, Refused):
            continue
    raise NotShown("Neither the edge nor the cloud gives this picture just now")


async def first_of(neighbours: Neighbours, tenant_id: str, session_id: UUID) -> UUID | None:
    """A stored picture of a session. None: there is none, or nobody answers."""
    try:
        at_edge = await neighbours.get(
            EDGE, "/api/v1/media", EdgeMediaPage, tenant_id=tenant_id, session_id=session_id, state=STORED, limit=1
        )
        if at_edge.pictures:
            return at_edge.pictures[0].media_id
    except (Away, Refused):
        pass
    try:
        in_cloud = await neighbours.get(
            CLOUD, "/api/v1/media", CloudMediaPage, tenant_id=tenant_id, session_id=session_id, state=STORED, limit=1
        )
    except (Away, Refused):
        return None
    return in_cloud.media[0].media_id if in_cloud.media else None


def shown(answer: Answer) -> PictureFile:
    content_type = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
    if content_type not in SHOWN_TYPES:
        raise NotShown(f"A file of the kind {content_type or 'unknown'} is not shown here")
    return PictureFile(content_type, answer.body)
