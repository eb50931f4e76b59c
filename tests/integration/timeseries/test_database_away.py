from functools import partial

from farmiq.kit.migrations import migrate
from farmiq.stack.postgres import Postgres
from support.query_api import QueryApi, query_api
from support.server_process import ServerProcess
from support.waiting import eventually

PATHS = ("/api/v1/telemetry/stats", "/api/v1/telemetry/metrics", "/api/v1/streams", "/api/v1/devices")


async def test_questions_are_answered_with_503_while_the_database_is_away(postgres_server: ServerProcess) -> None:
    assert isinstance(postgres_server.server, Postgres)
    url = postgres_server.server.url()
    await migrate(url, "farmiq.edge.migrations")
    async with query_api(url) as api:
        for path in PATHS:
            assert (await api.ask(path, tenant_id="demo"))[0] == 200
        postgres_server.kill()
        for path in PATHS:
            # Figures that are asked for often are told again for some seconds.
            await eventually(partial(is_away, api, path), what=f"{path} to say that the database is away")
        assert (await api.ask("/api/health"))[0] == 200
        postgres_server.start()
        for path in PATHS:
            await eventually(partial(is_there, api, path), what=f"{path} to answer again")


async def is_there(api: QueryApi, path: str) -> bool:
    return (await api.ask(path, tenant_id="demo"))[0] == 200


async def is_away(api: QueryApi, path: str) -> bool:
    """Nothing but the old answer comes before that."""
    status, answer = await api.ask(path, tenant_id="demo")
    assert status == 200 or (status, answer["error"]["code"]) == (503, "database_away")
    return status == 503
