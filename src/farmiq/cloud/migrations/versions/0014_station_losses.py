"""What weigh stations gave up, in a ledger of its own."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0014"
down_revision = "cloud_0013"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
