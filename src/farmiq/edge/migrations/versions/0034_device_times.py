"""The time on the device's clock, of samples whose time was corrected."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0034"
down_revision = "edge_0033"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
