"""What is covered of all streams, in one short text: two databases that hold the same sequences have the same one."""

from typing import Final

from farmiq.kit.postgres import Connection

_FINGERPRINT: Final = """
SELECT encode(sha256(convert_to(coalesce(string_agg(
         stream_id::text || ' ' || received::text || ' ' || lost::text, E'\\n'
         ORDER BY stream_id, tenant_id), ''), 'UTF8')), 'hex')
  FROM streams
"""


async def coverage_sha256(connection: Connection) -> str:
    found: str = await connection.fetchval(_FINGERPRINT)
    return found
