"""Requests read as a role that may only read, and that sees only the tenants which the request named: row-level security.

Every query says `WHERE tenant_id = $1`. Behind that PostgreSQL compares each row with the setting `farmiq.tenants`
(row-level security), which holds for one transaction: without it there are no rows, so a forgotten clause shows an empty answer.

The role belongs to the owner of the database: `<owner>_reader`. `allow` makes it where the owner may make roles, and grants what
it may read: the tables that have a policy for reading, without hashes of passwords and tokens. Where the role is missing, queries
work without it, `farmiq migrate` and `farmiq doctor` say so, and `ROLE_SQL` is what a database administrator runs.
"""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Final

import asyncpg

from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import AWAY, Connection, DatabaseAway, Pool

ALL_TENANTS: Final = "*"
"""For routes of administrators that show every tenant."""
READ_POLICY: Final = "read"
"""The name of the policy of each table that requests read."""

ROLE_SQL: Final = "CREATE ROLE {reader} NOLOGIN; GRANT {reader} TO {owner};"

# Run by the owner of the tables after each migration, so that tables and columns which came with it can be read.
_ALLOW: Final = f"""
DO $$
DECLARE
  reader text;
  owner text;
  readable record;
BEGIN
  IF to_regprocedure('reader_role()') IS NULL THEN RETURN; END IF;
  reader := reader_role();
  SELECT pg_get_userbyid(relowner) INTO owner FROM pg_class WHERE oid = 'alembic_version'::regclass;
  IF (SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user) THEN
    BEGIN
      IF to_regrole(quote_ident(reader)) IS NULL THEN EXECUTE format('CREATE ROLE %I NOLOGIN', reader); END IF;
      EXECUTE format('GRANT %I TO %I', reader, owner);
    EXCEPTION WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
    END;
  END IF;
  IF to_regrole(quote_ident(reader)) IS NULL THEN RETURN; END IF;
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO %I', current_schema(), reader);
  FOR readable IN
    SELECT polrelid::regclass AS name, string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns
      FROM pg_policy JOIN pg_attribute ON attrelid = polrelid
     WHERE polname = '{READ_POLICY}' AND attnum > 0 AND NOT attisdropped
           AND attname !~ '(token|password|secret)_hash$'
     GROUP BY polrelid
  LOOP
    EXECUTE format('GRANT SELECT (%s) ON %s TO %I', readable.columns, readable.name, reader);
  END LOOP;
END
$$
"""  # noqa: S608 - our own constants
_TENANT: Final = re.compile(r"[A-Za-z0-9._-]+")
_NAMES: Final = """
SELECT quote_ident(reader_role()) AS reader, quote_ident(pg_get_userbyid(relowner)) AS owner
  FROM pg_class WHERE oid = 'alembic_version'::regclass
"""

log = get_logger(__name__)


@asynccontextmanager
async def read_as(pool: Pool, *tenant_ids: str) -> AsyncIterator[Connection]:
    """A connection that reads these tenants, all queries as of one moment. The role and the tenants end with the transaction: a
    connection of the pool is never reset."""
    if tenant_ids != (ALL_TENANTS,) and not all(map(_TENANT.fullmatch, tenant_ids)):
        raise ValueError("either ids of tenants, or ALL_TENANTS alone")
    try:
        async with pool.acquire() as connection, connection.transaction(isolation="repeatable_read", readonly=True):
            if not await connection.fetchval("SELECT read_as($1)", ",".join(tenant_ids)):
                _warn_once()
            yield connection
    except AWAY as error:
        raise DatabaseAway("PostgreSQL does not answer: try again in a moment") from error


async def allow(connection: Connection) -> None:
    """Let the reader read what the schema says. Safe to repeat; needs the owner of the tables."""
    try:
        await connection.execute(_ALLOW)
    except asyncpg.InsufficientPrivilegeError as error:
        log.warning("reader_not_granted", reason=str(error), fix="farmiq migrate, as the owner of the tables")


async def missing_role(connection: Connection) -> str | None:
    """The SQL that a database administrator runs before `farmiq migrate`, where the role is missing; else None."""
    if await connection.fetchval("SELECT to_regprocedure('read_as(text)') IS NULL"):
        return None
    if await connection.fetchval("SELECT read_as('')"):
        return None
    names = await connection.fetchrow(_NAMES)
    assert names is not None  # noqa: S101 - whoever has the function has the table
    return ROLE_SQL.format(reader=names["reader"], owner=names["owner"])


@cache
def _warn_once() -> None:
    log.warning("row_security_skipped", fix="farmiq migrate says which role is missing")


async def missing_role_at(url: str) -> str | None:
    """As `missing_role`, on a connection of its own."""
    connection = await asyncpg.connect(url, timeout=10.0, server_settings={"application_name": "farmiq-migrate"})
    try:
        return await missing_role(connection)
    finally:
        await connection.close(timeout=5.0)
