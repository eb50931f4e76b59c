"""`ingest_dedupe` has a digest of the event's content, and the edge that delivered it first."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0019"
down_revision = "cloud_0018"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
