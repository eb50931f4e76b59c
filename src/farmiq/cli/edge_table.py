"""Edges and their tokens as a person reads them, and as data."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from farmiq.cli.terminal import console, own_name, put, say

if TYPE_CHECKING:
    from collections.abc import Sequence

    from farmiq.cloud.ingestion.edges import EdgeToken


def as_data(token: "EdgeToken") -> dict[str, Any]:
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(token)
    return told


def show(tokens: "Sequence[EdgeToken]") -> None:
    from rich.table import Table

    if not tokens:
        say(f"No edge has been added. Add one with: {own_name()} edge add EDGE_ID --tenant TENANT")
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in ("edge", "tenants", "token", "state", "last used", "made", "ends", "revoked"):
        table.add_column(column, no_wrap=column in ("edge", "token"), overflow="fold")
    for one in tokens:
        used = "never" if one.last_used_at is None else moment(one.last_used_at)
        times = (moment(at) for at in (one.created_at, one.expires_at, one.revoked_at))
        table.add_row(one.edge_cluster_id, ", ".join(one.tenant_ids), one.token_id, one.state, used, *times)
    put(console(), table)


def moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M} UTC"
