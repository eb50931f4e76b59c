from pathlib import Path

from farmiq.audit.spools import spools_below
from farmiq.stack.home import Home
from farmiq.torture.forwarders import forwarder_of
from farmiq.torture.telling import Login

LOGIN = Login(
    tenant_id="demo", farm_id="f", barn_id="b", device_id="torture-1", mqtt_url="mqtt://127.0.0.1", http_token="t"
)


def test_the_audit_of_the_farm_finds_the_spool_of_a_tortured_node(tmp_path: Path) -> None:
    home = Home(tmp_path)
    forwarder = forwarder_of(home, LOGIN)
    forwarder.prepare()
    assert forwarder.environment()["NODE_FORWARDER_SPOOL_DIR"] == str(forwarder.spool)
    assert dict(spools_below(home.path / "devices")) == {"torture-1": forwarder.spool}
