"""What an audit compares and could not read yet: the age of the bus, aggregates untold, single readings by day."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0031"
down_revision = "cloud_0030"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
