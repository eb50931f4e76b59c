"""Weigh sessions, pictures, inference results."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0004"
down_revision = "edge_0003"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
