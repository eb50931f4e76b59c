"""Roles of a database beside its owner: one for each service that writes, and one that requests read as.

They belong to the owner, whose name is the beginning of theirs, so two farms on one server have different ones. `allow` makes
them where the owner may make roles, and brings what they may do in line with what the code says: after each migration, safe to
repeat. Where one is missing, services work as the owner; `farmiq migrate` and `farmiq doctor` say so, and `missing_roles` is
what a database administrator runs.
"""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Final

import asyncpg

from farmiq.kit.logging import get_logger
from farmiq.kit.postgres import Connection

Grants = Mapping[str, tuple[str, ...]]
"""Tables by what may be done to them, in the words of SQL: "SELECT, INSERT"."""
Writers = Mapping[str, Grants]
"""By service."""

READ: Final = "SELECT"
ADD: Final = "SELECT, INSERT"
CHANGE: Final = "SELECT, INSERT, UPDATE"
UPDATE: Final = "SELECT, UPDATE"
ALL: Final = "SELECT, INSERT, UPDATE, DELETE"

READ_POLICY: Final = "read"
"""The name of the policy of each table that requests read."""
OWNER_LETTERS: Final = 36
"""So much of the owner's name is in those of the services' roles, as in `writer_role` of the migrations."""

_OWNER: Final = "SELECT pg_get_userbyid(relowner) FROM pg_class WHERE oid = 'alembic_version'::regclass"
_HAS_FUNCTION: Final = "SELECT to_regprocedure($1) IS NOT NULL"
_CAN_MAKE_ROLES: Final = "SELECT rolcreaterole OR rolsuper FROM pg_roles WHERE rolname = current_user"
_ROLES: Final = """
SELECT rolname FROM pg_roles WHERE rolname = ANY ($1::text[]) AND pg_has_role($2::name, oid, 'MEMBER')
       AND (rolbypassrls OR rolname = $3)
"""
_GRANT_READER: Final = f"""
DO $$
DECLARE
  reader text := reader_role();
  readable record;
BEGIN
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
_HELD: Final = """
SELECT rolname AS role, relname AS table_name, privilege_type AS privilege
  FROM pg_class, aclexplode(relacl) JOIN pg_roles ON grantee = pg_roles.oid
 WHERE relnamespace = current_schema()::regnamespace AND rolname = ANY ($1::text[])
"""
_NOT_FOR_ALL: Final = """
REVOKE EXECUTE ON FUNCTION ensure_month_partition(regclass, date), drop_partition(regclass) FROM PUBLIC
"""
_GRANT_USE: Final = """
GRANT USAGE ON SCHEMA {schema} TO {role};
GRANT EXECUTE ON FUNCTION ensure_month_partition(regclass, date), drop_partition(regclass) TO {role}
"""

log = get_logger(__name__)


def reader_role(owner: str) -> str:
    return f"{owner[:56]}_reader"


def writer_role(owner: str, service: str) -> str:
    return f"{owner[:OWNER_LETTERS]}_{service}"


def role_statements(owner: str, role: str) -> Iterator[str]:
    """What makes a role and gives it to the owner. Only a superuser may give BYPASSRLS, which a writer needs for COPY."""
    ability = "NOLOGIN" if role == reader_role(owner) else "NOLOGIN BYPASSRLS"
    yield f"CREATE ROLE {identifier(role)} {ability}"
    yield f"GRANT {identifier(role)} TO {identifier(owner)}"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def writers_of(package: str) -> Writers:
    """Of a tier's migrations. What every service needs is in each."""
    module = import_module(f"{package}.writers")
    return {service: _added(module.EVERYONE, grants) for service, grants in module.WRITERS.items()}


async def allow(connection: Connection, package: str) -> None:
    """Make the roles if we may, and let each do what the code says. Needs the owner of the tables."""
    try:
        if await connection.fetchval(_HAS_FUNCTION, "write_as(text)"):
            await _allow(connection, package)
    except asyncpg.InsufficientPrivilegeError as error:
        log.warning("roles_not_granted", reason=str(error), fix="farmiq migrate, as the owner of the tables")


async def missing_roles(connection: Connection, package: str) -> list[str]:
    """The SQL that a database administrator runs before `farmiq migrate`, for roles that are missing."""
    if not await connection.fetchval(_HAS_FUNCTION, "write_as(text)"):
        return []
    owner = await connection.fetchval(_OWNER)
    known = await _known(connection, owner, package)
    return [
        f"{statement};"
        for role in _wanted(owner, package)
        if role not in known
        for statement in role_statements(owner, role)
    ]


async def missing_roles_at(url: str, package: str) -> list[str]:
    """As `missing_roles`, on a connection of its own."""
    connection = await asyncpg.connect(url, timeout=10.0, server_settings={"application_name": "farmiq-migrate"})
    try:
        return await missing_roles(connection, package)
    finally:
        await connection.close(timeout=5.0)


async def _allow(connection: Connection, package: str) -> None:
    owner = await connection.fetchval(_OWNER)
    known = await _known(connection, owner, package)
    if await connection.fetchval(_CAN_MAKE_ROLES):
        for role in _wanted(owner, package):
            if role not in known and await _is_made(connection, owner, role):
                known.add(role)
    if reader_role(owner) in known:
        await connection.execute(_GRANT_READER)
    roles = {writer_role(owner, service): grants for service, grants in writers_of(package).items()}
    held: dict[tuple[str, str], set[str]] = {}
    for row in await connection.fetch(_HELD, list(roles)):
        held.setdefault((row["role"], row["table_name"]), set()).add(row["privilege"])
    schema = identifier(await connection.fetchval("SELECT current_schema()"))
    async with connection.transaction():
        await connection.execute(_NOT_FOR_ALL)
        for role in sorted(roles.keys() & known):
            await connection.execute(_GRANT_USE.format(schema=schema, role=identifier(role)))
            wanted = {(role, table): privileges for table, privileges in _by_table(roles[role]).items()}
            for key in wanted.keys() | {one for one in held if one[0] == role}:
                await _set(connection, key, held.get(key, set()), wanted.get(key, set()))


async def _set(connection: Connection, key: tuple[str, str], held: set[str], wanted: set[str]) -> None:
    role, table = map(identifier, key)
    if surplus := held - wanted:
        await connection.execute(f"REVOKE {', '.join(sorted(surplus))} ON {table} FROM {role}")
    if missing := wanted - held:
        await connection.execute(f"GRANT {', '.join(sorted(missing))} ON {table} TO {role}")


async def _is_made(connection: Connection, owner: str, role: str) -> bool:
    try:
        async with connection.transaction():
            for statement in role_statements(owner, role):
                await connection.execute(statement)
    except (asyncpg.DuplicateObjectError, asyncpg.UniqueViolationError, asyncpg.InsufficientPrivilegeError):
        return False  # `missing_roles` says what an administrator does
    return True


async def _known(connection: Connection, owner: str, package: str) -> set[str]:
    wanted = _wanted(owner, package)
    return {row[0] for row in await connection.fetch(_ROLES, wanted, owner, reader_role(owner))}


def _wanted(owner: str, package: str) -> list[str]:
    return [reader_role(owner), *(writer_role(owner, service) for service in writers_of(package))]


def _by_table(grants: Grants) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for privileges, tables in grants.items():
        for table in tables:
            found.setdefault(table, set()).update(privileges.split(", "))
    return found


def _added(everyone: Grants, own: Grants) -> Grants:
    return {privileges: (*everyone.get(privileges, ()), *own.get(privileges, ())) for privileges in {**everyone, **own}}
