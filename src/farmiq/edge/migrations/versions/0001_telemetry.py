"""Samples, aggregates, coverage, losses, liveness."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0001"
down_revision: str | None = None


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
