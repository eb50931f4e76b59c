"""The gateway's own test messages, and what the broker refused."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0021"
down_revision = "edge_0020"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
