"""What queries need, liveness that knows a goodbye, and aggregates on their way to the cloud."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0006"
down_revision = "edge_0005"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
