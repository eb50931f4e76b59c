"""Models, and the jobs that look at pictures."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0013"
down_revision = "edge_0012"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
