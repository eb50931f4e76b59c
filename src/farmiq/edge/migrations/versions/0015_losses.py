"""The ledger of losses as a tenant reads it: all devices, newest first."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0015"
down_revision = "edge_0014"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
