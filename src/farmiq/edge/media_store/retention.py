"""Which of the pictures past their retention may go. Decided from what is known of each; nothing is looked up here."""

from collections.abc import Collection, Sequence
from datetime import datetime
from uuid import UUID

from msgspec import Struct


class OldPicture(Struct, frozen=True):
    """Past its retention."""

    media_id: UUID
    tenant_id: str
    bucket: str
    object_key: str
    session_id: UUID | None
    kept_from: datetime


class Judgement(Struct, frozen=True):
    """`forced` go although the cloud does not have them, because somebody said so."""

    deleted: list[OldPicture]
    forced: list[OldPicture]
    held_for_session: list[OldPicture]
    held_for_sync: list[OldPicture]


def judge(
    old: Sequence[OldPicture],
    unfinished_sessions: Collection[tuple[str, UUID]],
    not_in_cloud: Collection[UUID],
    *,
    may_delete_unfinalized: bool,
    must_be_synced: bool,
) -> Judgement:
    judgement = Judgement([], [], [], [])
    for picture in old:
        if (picture.tenant_id, picture.session_id) in unfinished_sessions and not may_delete_unfinalized:
            judgement.held_for_session.append(picture)
        elif picture.media_id not in not_in_cloud:
            judgement.deleted.append(picture)
        else:
            (judgement.held_for_sync if must_be_synced else judgement.forced).append(picture)
    return judgement
