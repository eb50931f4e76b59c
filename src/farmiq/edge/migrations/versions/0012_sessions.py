"""Weigh sessions: what was seen of each, and what is missing."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0012"
down_revision = "edge_0011"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
