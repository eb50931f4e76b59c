"""Edges' tokens, and aggregates that edges send."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0006"
down_revision = "cloud_0005"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
