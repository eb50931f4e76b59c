"""The outbox and the state of the sync."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0002"
down_revision = "edge_0001"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
