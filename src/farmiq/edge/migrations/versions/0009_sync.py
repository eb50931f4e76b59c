"""What the forwarder has still to tell the cloud about its own batches."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0009"
down_revision = "edge_0008"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
