"""How far a job believes the clock."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0028"
down_revision = "cloud_0026"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
