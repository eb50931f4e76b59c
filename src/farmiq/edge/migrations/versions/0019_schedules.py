"""Whether a device has a schedule, in `device_liveness`."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0019"
down_revision = "edge_0018"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
