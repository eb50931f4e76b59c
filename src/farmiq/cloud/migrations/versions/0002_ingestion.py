"""Edges and dedupe."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0002"
down_revision = "cloud_0001"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
