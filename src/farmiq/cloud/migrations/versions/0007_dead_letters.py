"""What people did with dead letters."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0007"
down_revision = "cloud_0006"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
