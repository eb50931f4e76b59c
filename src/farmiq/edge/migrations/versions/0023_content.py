"""`stream_content`: a digest of each block of samples."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0023"
down_revision = "edge_0022"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
