"""By which answer of the cloud an event was acknowledged."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0030"
down_revision = "edge_0029"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
