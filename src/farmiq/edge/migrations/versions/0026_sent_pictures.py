"""What leaves the edge of a picture is its pixels."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0026"
down_revision = "edge_0025"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
