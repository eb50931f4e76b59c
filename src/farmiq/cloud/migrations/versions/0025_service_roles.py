"""Each service works as a role of its own."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0025"
down_revision = "cloud_0024"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
