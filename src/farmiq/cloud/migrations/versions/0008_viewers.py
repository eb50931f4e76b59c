"""Tokens of people and programs that read."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0008"
down_revision = "cloud_0007"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
