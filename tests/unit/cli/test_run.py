import types

import pytest

from farmiq.cli import exits, run
from farmiq.cli.errors import BadSetting, BadUsage, CommandFailed
from farmiq.contracts.services import Service
from farmiq.kit.lifecycle import Lifetime

GATEWAY = Service("edge-ingress-gateway", "edge", 5103)
SYNC = Service("edge-sync-forwarder", "edge", 5108)
AGENT = Service("node-agent", "device")


def test_an_unknown_service_is_refused_with_the_known_ones() -> None:
    with pytest.raises(BadUsage) as refused:
        run.choose(["node-agent", "edge-ingres"])
    assert refused.value.exit_code == exits.USAGE
    assert "edge-ingres" in str(refused.value)
    assert "edge-ingress-gateway" in refused.value.fix


def test_a_service_named_twice_runs_once() -> None:
    assert [service.name for service in run.choose(["node-agent", "node-agent"])] == ["node-agent"]


def test_each_http_service_keeps_its_documented_port() -> None:
    assert run.ports_of([GATEWAY, SYNC, AGENT], {}) == {"edge-ingress-gateway": "5103", "edge-sync-forwarder": "5108"}


def test_port_moves_the_only_http_service() -> None:
    environ = {"PORT": "7000", "EDGE_INGRESS_GATEWAY_PORT": "7001"}
    assert run.ports_of([GATEWAY, AGENT], environ) == {"edge-ingress-gateway": "7000"}


def test_the_variable_of_one_service_moves_that_service() -> None:
    ports = run.ports_of([GATEWAY, SYNC], {"EDGE_SYNC_FORWARDER_PORT": "6108"})
    assert ports == {"edge-ingress-gateway": "5103", "edge-sync-forwarder": "6108"}


def test_port_for_several_http_services_is_refused_with_the_replacement() -> None:
    with pytest.raises(BadSetting) as refused:
        run.ports_of([GATEWAY, SYNC], {"PORT": "7000"})
    assert refused.value.exit_code == exits.BAD_SETTINGS
    assert "edge-sync-forwarder" in str(refused.value)
    assert "EDGE_INGRESS_GATEWAY_PORT=5103" in refused.value.fix


def test_an_unknown_log_level_is_refused_by_name() -> None:
    with pytest.raises(BadSetting, match="LOG_LEVEL is 'LOUD'"):
        run.log_level({"LOG_LEVEL": "loud"})
    assert run.log_level({"LOG_LEVEL": "debug"}) == "DEBUG"
    assert run.log_level({}) == "INFO"


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_paho(name: str) -> types.ModuleType:
        raise ModuleNotFoundError(f"No module named 'paho' while importing {name}", name="paho.mqtt")

    monkeypatch.setattr("importlib.import_module", without_paho)
    with pytest.raises(CommandFailed) as failed:
        run.load(AGENT)
    assert "'paho.mqtt'" in str(failed.value)
    assert failed.value.fix == "pip install 'farmiq[device]'"


def test_a_missing_module_of_ours_keeps_its_traceback() -> None:
    with pytest.raises(ModuleNotFoundError):
        run.load(Service("edge-gone", "edge", 1))


async def test_a_service_sees_its_own_port_and_the_rest_of_the_environment() -> None:
    seen: dict[str, str] = {}

    async def serve(environ: object, _life: Lifetime) -> None:
        assert isinstance(environ, dict)
        seen.update(environ)

    await run.on_port(serve, "6108")({"PORT": "1", "DATABASE_URL": "x"}, Lifetime("edge-sync-forwarder"))
    assert seen == {"PORT": "6108", "DATABASE_URL": "x"}
