"""What was erased of a tenant: the record."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0028"
down_revision = "edge_0027"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
