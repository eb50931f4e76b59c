"""When each job ran last, and what retention needs to do its work in small steps."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0008"
down_revision = "edge_0007"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
