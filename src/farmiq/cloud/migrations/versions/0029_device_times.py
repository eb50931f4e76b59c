"""The time on the device's clock, of samples whose time was corrected."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0029"
down_revision = "cloud_0028"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
