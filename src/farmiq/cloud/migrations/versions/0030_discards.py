"""Who declared a loss that was not its device's, and why."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0030"
down_revision = "cloud_0029"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
