"""What was erased of a tenant: the record."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0024"
down_revision = "cloud_0023"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
