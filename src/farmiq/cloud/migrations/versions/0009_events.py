"""Weigh sessions, inference results, sync batches and every other event from the bus."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0009"
down_revision = "cloud_0008"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
