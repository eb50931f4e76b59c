"""The tenant is part of every key that a device or an operator chooses the id of, and event ids are keyed by a secret."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0024"
down_revision = "edge_0023"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
