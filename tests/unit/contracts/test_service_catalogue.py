import pytest

from farmiq.contracts.services import SERVICES, UnknownService, service_named


def test_a_service_is_found_by_its_name_where_its_folder_is() -> None:
    assert service_named("edge-ingress-gateway").module == "farmiq.edge.ingress_gateway.main"
    assert service_named("cloud-ingestion").module == "farmiq.cloud.ingestion.main"
    assert service_named("node-agent").module == "farmiq.device.node_agent.main"
    assert service_named("edge-sync-forwarder").url_variable == "EDGE_SYNC_FORWARDER_URL"


def test_names_and_ports_are_each_given_once() -> None:
    ports = [service.port for service in SERVICES if service.port]
    assert len({service.name for service in SERVICES}) == len(SERVICES)
    assert len(set(ports)) == len(ports)
    assert all(service.port is None for service in SERVICES if service.tier == "device")


def test_an_unknown_service_is_refused_with_the_names_there_are() -> None:
    with pytest.raises(UnknownService, match="edge-sync-forwarder"):
        service_named("edge-sync-forwarder ")
