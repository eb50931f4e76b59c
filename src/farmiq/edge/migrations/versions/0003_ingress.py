"""Devices, dedupe, rejected messages, the epoch."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0003"
down_revision = "edge_0002"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
