"""Pictures on their way to the cloud."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0011"
down_revision = "edge_0010"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
