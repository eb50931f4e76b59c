"""The tenant is part of the key of samples, aggregates and streams."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0020"
down_revision = "edge_0019"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
