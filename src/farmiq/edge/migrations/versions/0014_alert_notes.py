"""What a person wrote when they acknowledged an alert."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0014"
down_revision = "edge_0013"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
