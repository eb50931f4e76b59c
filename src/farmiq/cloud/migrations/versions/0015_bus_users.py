"""Programs of others that read from the bus."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0015"
down_revision = "cloud_0014"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
