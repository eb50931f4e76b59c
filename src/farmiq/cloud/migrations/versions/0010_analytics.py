"""KPIs and anomalies."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0010"
down_revision = "cloud_0009"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
