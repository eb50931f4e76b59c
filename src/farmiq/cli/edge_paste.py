"""What is printed when an edge gets a token: once, with the environment of its edge-sync-forwarder ready to be pasted."""

from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from farmiq.cli import token_table
from farmiq.kit.shell import exports

if TYPE_CHECKING:
    from farmiq.cli.edge_changes import Issued

BATCH_ROUTE = "/api/v1/edge/batch"
UNKNOWN_URL = f"https://YOUR-CLOUD{BATCH_ROUTE}"


def as_data(issued: "Issued") -> dict[str, Any]:
    """The contract of `--json`."""
    return token_table.as_data(issued.row) | {"token": issued.token, "environment": environment(issued)}


def as_text(issued: "Issued") -> str:
    row = issued.row
    end = "" if row.expires_at is None else f", until {token_table.moment(row.expires_at)}"
    parts = [
        f"{row.edge_cluster_id} may deliver for {', '.join(row.tenant_ids)}{end}. Its token {row.token_id} is shown this once:",
        f"  {issued.token}",
    ]
    if issued.others:
        old = ", ".join(f"{one.token_id} until {token_table.moment(one.expires_at)}" for one in issued.others)
        parts.append(f"Still let in beside it: {old}.")
    where = "On the edge, for edge-sync-forwarder:"
    if issued.ingestion_url is None:
        where += f" (its CLOUD_INGESTION_URL is the address of your cloud-ingestion; {UNKNOWN_URL} stands for it)"
    return "\n\n".join([*parts, where, exports(environment(issued))])


def environment(issued: "Issued") -> dict[str, str]:
    """The names that the forwarder's settings have."""
    return {
        "EDGE_CLUSTER_ID": issued.row.edge_cluster_id,
        "CLOUD_INGESTION_URL": UNKNOWN_URL if issued.ingestion_url is None else _route(issued.ingestion_url),
        "CLOUD_INGESTION_TOKEN": issued.token,
    }


def _route(url: str) -> str:
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=BATCH_ROUTE)) if parts.path in ("", "/") else url
