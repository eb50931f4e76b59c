"""When each job ran last."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0005"
down_revision = "cloud_0004"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
