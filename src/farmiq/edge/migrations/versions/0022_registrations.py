"""Weigh stations have a name of their own, and the devices that are registered already are announced to the cloud."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0022"
down_revision = "edge_0021"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
