"""Dead letters are kept in the database from their first look on."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0016"
down_revision = "cloud_0015"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
