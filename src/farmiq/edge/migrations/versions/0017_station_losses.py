"""What weigh stations gave up, in a ledger of its own."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0017"
down_revision = "edge_0016"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
