"""What a stream holds of each boot, and which server this database runs on."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0031"
down_revision = "edge_0030"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
