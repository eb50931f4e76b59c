"""The tenant is part of the key of samples, aggregates and streams."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0018"
down_revision = "cloud_0017"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
