"""The ledger of losses as a tenant reads it: all devices, newest first."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0012"
down_revision = "cloud_0011"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
