"""Requests read as a role that sees the rows of named tenants only: row-level security."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0023"
down_revision = "cloud_0022"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
