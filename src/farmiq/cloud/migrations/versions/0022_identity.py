"""Event ids that the cloud gives are keyed by a secret."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0022"
down_revision = "cloud_0021"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
