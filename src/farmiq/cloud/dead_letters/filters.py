"""Which letters are meant. Pure."""

from datetime import datetime
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from farmiq.cloud.dead_letters.letters import Letter


class Filter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Every part that is given has to fit. `event_type` may end in `*`; `since` and `until` are about when it failed."""

    reason: str | None = None
    event_type: str | None = None
    tenant_id: str | None = None
    device_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    ids: tuple[str, ...] = ()


EVERYTHING: Final = Filter()


def matches(wanted: Filter, letter: Letter) -> bool:
    return (
        wanted.reason in (None, letter.reason)
        and (wanted.event_type is None or fnmatchcase(letter.event_type, wanted.event_type))
        and wanted.tenant_id in (None, letter.tenant_id)
        and wanted.device_id in (None, letter.device_id)
        and (not wanted.ids or bool({letter.message_id, letter.event_id} & set(wanted.ids)))
        and _is_between(wanted, letter.failed_at)
    )


def _is_between(wanted: Filter, failed_at: datetime | None) -> bool:
    """A letter without a time is in no range."""
    if wanted.since is None and wanted.until is None:
        return True
    if failed_at is None:
        return False
    return (wanted.since is None or failed_at >= wanted.since) and (wanted.until is None or failed_at < wanted.until)
