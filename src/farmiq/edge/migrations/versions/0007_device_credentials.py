"""What a device proves itself with."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0007"
down_revision = "edge_0006"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
