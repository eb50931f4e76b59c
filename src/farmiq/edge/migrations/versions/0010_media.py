"""Uploads: who asked for them, and what became of them."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0010"
down_revision = "edge_0009"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
