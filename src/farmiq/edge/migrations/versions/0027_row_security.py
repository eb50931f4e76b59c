"""Requests read as a role that sees the rows of named tenants only: row-level security."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0027"
down_revision = "edge_0026"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
