"""What an audit compares and could not read yet: aggregates untold, single readings by day."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0036"
down_revision = "edge_0035"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
