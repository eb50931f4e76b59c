"""How many bytes of pictures each device asked to store on a day."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "edge_0025"
down_revision = "edge_0024"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
