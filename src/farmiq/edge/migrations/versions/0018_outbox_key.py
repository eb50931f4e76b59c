"""Room in the index of the outbox's ids."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0018"
down_revision = "edge_0017"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
