"""The cloud can be drained: it takes no events until RabbitMQ was replaced."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0017"
down_revision = "cloud_0016"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
