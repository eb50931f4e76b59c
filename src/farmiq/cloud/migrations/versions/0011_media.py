"""Pictures in the cloud: thumbnails, retention, integrity."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0011"
down_revision = "cloud_0010"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
