"""Tokens as a person reads them, whoever holds them."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Protocol

from farmiq.cli.terminal import console, put


class ShownToken(Protocol):
    @property
    def tenant_ids(self) -> list[str]: ...
    @property
    def token_id(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def expires_at(self) -> datetime | None: ...
    @property
    def revoked_at(self) -> datetime | None: ...
    @property
    def last_used_at(self) -> datetime | None: ...


def show_tokens(holder: str, tokens: Iterable[tuple[str, ShownToken]]) -> None:
    """Each with the name of its holder."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in (holder, "tenants", "token", "state", "last used", "made", "ends", "revoked"):
        table.add_column(column, no_wrap=column in (holder, "token"), overflow="fold")
    for name, one in tokens:
        used = "never" if one.last_used_at is None else moment(one.last_used_at)
        times = (moment(at) for at in (one.created_at, one.expires_at, one.revoked_at))
        table.add_row(name, ", ".join(one.tenant_ids), one.token_id, one.state, used, *times)
    put(console(), table)


def as_data(token: ShownToken) -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(token)
    return told


def live_ids(tokens: Sequence[ShownToken]) -> list[str]:
    return [one.token_id for one in tokens if one.state == "live"]


def moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
