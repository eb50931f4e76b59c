"""Answers to each edge are numbered, so that an edge and its cloud find out when one of them went back."""

from sqlalchemy import Connection

from farmiq.kit.migrations import execute_sql_beside

revision = "cloud_0026"
down_revision = "cloud_0025"


def upgrade(connection: Connection) -> None:
    execute_sql_beside(__file__, connection)
