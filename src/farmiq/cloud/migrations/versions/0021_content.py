"""`stream_content`: a digest of each block of samples."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0021"
down_revision = "cloud_0020"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
