"""Identity is `(tenant_id, id)`: every key that the catalogue has names the tenant, or stands below with a reason."""

import asyncpg
import pytest

# Keys with no tenant in them. One that is not in the list, or that is not there any more, fails the test.
EXCEPTIONS = {
    "edge": {
        "devices (device_id)": "the topic of a device's acknowledgement names nothing else",
        "devices (http_token_hash)": "a token is found before anybody knows whose it is",
        "device_liveness (device_id)": "one row for each row of devices",
        "media_presign_pace (device_id)": "one row for each row of devices",
        "media_objects (bucket, object_key)": "the key of an object begins with its tenant",
        "ingress_rejected (id)": "made by the database; a refused message may name no tenant",
        "ops_alerts (id)": "made by the database; an alert about the edge box has no tenant",
        "inference_models (model_version)": "models belong to the edge",
        "inference_models (generation)": "models belong to the edge",
        "job_runs (job_name)": "jobs belong to the edge",
        "canary_receipts (way)": "test messages of the gateway, nobody's data",
        "edge_identity (only_row)": "one row",
        "retired_samples (only_row)": "one row",
        "alembic_version (version_num)": "one row",
    },
    "cloud": {
        "edges (edge_cluster_id)": "an edge speaks for several tenants",
        "edges (token_hash)": "a token is found before anybody knows whose it is",
        "edge_tokens (token_id)": "as edges",
        "edge_tokens (token_hash)": "as edges",
        "viewer_tokens (token_id)": "a viewer reads several tenants",
        "viewer_tokens (token_hash)": "a token is found before anybody knows whose it is",
        "bus_users (name)": "a login of the broker, whose names are its own",
        "dead_letters (letter_id)": "made by the database; a letter may name no tenant",
        "dead_letters (queue, digest)": "a letter may name no tenant; its digest is over all of it",
        "dead_letter_actions (action_id)": "made by the cloud; an action is about letters of all tenants",
        "discarded_letters (discard_id)": "made by the database; a letter may name no tenant",
        "analytics_marks (id)": "made by the database, and gone as soon as the day is computed",
        "drains (drain_id)": "the bus is one for all",
        "drains (((ended_at IS NULL)))": "the bus is one for all",
        "job_runs (job_name)": "jobs belong to the cloud",
        "cloud_identity (only_row)": "one row",
        "empty_bus_queues (service)": "the bus is one for all",
        "retired_samples (only_row)": "one row",
        "alembic_version (version_num)": "one row",
    },
}  # fmt: skip
# Partitions have the keys of their table. The part of the definition from the first bracket on says over what the key is.
KEYS = """
    SELECT relname || ' ' ||
           regexp_replace(pg_get_indexdef(indexrelid), '^.* USING btree (\\(.*?\\))( NULLS | WITH | WHERE |$).*$',
                          '\\1')
      FROM pg_index JOIN pg_class ON pg_class.oid = indrelid
     WHERE indisunique AND relnamespace = 'public'::regnamespace AND NOT relispartition AND relkind IN ('r', 'p')
"""
CHILDREN_WITHOUT_TENANT = """
    SELECT conrelid::regclass::text, pg_get_constraintdef(oid) FROM pg_constraint
     WHERE contype = 'f' AND pg_get_constraintdef(oid) NOT LIKE '%tenant_id%'
"""


@pytest.fixture(params=["edge", "cloud"])
def tier(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def url(tier: str, request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(f"{tier}_url"))


async def test_every_key_names_the_tenant_or_has_a_reason_not_to(url: str, tier: str) -> None:
    connection = await asyncpg.connect(url)
    keys = {row[0] for row in await connection.fetch(KEYS)}
    await connection.close()
    assert len(keys) > 20
    assert {key for key in keys if "tenant_id" not in key} == EXCEPTIONS[tier].keys()


async def test_what_refers_to_a_row_of_a_tenant_names_the_tenant_too(url: str, tier: str) -> None:
    connection = await asyncpg.connect(url)
    found = {row[0] for row in await connection.fetch(CHILDREN_WITHOUT_TENANT)}
    await connection.close()
    assert found == ({"edge_tokens", "discarded_letters"} if tier == "cloud" else set())
