"""When a picture that is missing or damaged is declared lost, and which pictures were adopted from the object store."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0035"
down_revision = "edge_0034"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
