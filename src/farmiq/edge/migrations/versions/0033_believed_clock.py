"""How far a job believes the clock."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0033"
down_revision = "edge_0031"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
