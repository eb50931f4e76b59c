"""Each service works as a role of its own."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0029"
down_revision = "edge_0028"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
