"""Which edge owns a device, how that came about, every move, and what is held because another edge sent it."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0020"
down_revision = "cloud_0019"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
