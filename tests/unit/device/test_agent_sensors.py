import re
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from farmiq.device.handover import CHANNELS_MAX, ChannelName
from farmiq.device.node_agent.drivers import Fault, Pace
from farmiq.device.node_agent.drivers.hwmon import HwmonDevice
from farmiq.device.node_agent.drivers.modbus import ModbusDevice
from farmiq.device.node_agent.main import serve
from farmiq.device.node_agent.plugins import GROUP
from farmiq.device.node_agent.sensors_file import BadSensorsFile, Equipment, channel_table, load_sensors
from farmiq.kit.clock import Clock
from farmiq.kit.lifecycle import Lifetime
from farmiq.kit.settings import BadSettings

ROOT = Path(__file__).resolve().parents[3]

TWO_DEVICES = """
[[device]]
driver = "hwmon"
name = "board"
interval_ms = 5000

[[device.channel]]
metric = "temperature"
unit = "C"
sensor = "board"
chip = "cpu_thermal"
input = "temp1_input"
max = 110

[[device]]
driver = "modbus"
host = "192.0.2.7"
timeout_ms = 400

[[device.channel]]
metric = "temperature"
unit = "C"
sensor = "t1"
register = 100
type = "int16"
scale = 0.1

[[device.channel]]
metric = "humidity"
unit = "%"
sensor = "t1"
register = 101
"""

CHANNEL = 'metric = "temperature"\nunit = "C"\nsensor = "t1"\n'


def load(tmp_path: Path, text: str) -> list[Equipment]:
    path = tmp_path / "sensors.toml"
    path.write_text(text, encoding="utf-8")
    return load_sensors(path, 1000)


def simulated(device: str = "", channel: str = CHANNEL + "mean = 20") -> str:
    return f'[[device]]\ndriver = "simulated"\n{device}\n[[device.channel]]\n{channel}\n'


def test_a_file_becomes_devices_with_their_pace_and_one_table_of_channels(tmp_path: Path) -> None:
    board, gateway = load(tmp_path, TWO_DEVICES)
    assert (board.name, gateway.name) == ("board", "device[1]")
    assert isinstance(board.device, HwmonDevice)
    assert isinstance(gateway.device, ModbusDevice)
    assert (board.pace, gateway.pace) == (Pace(5.0, 3.5), Pace(1.0, 0.4))
    assert channel_table([board, gateway]) == [
        ChannelName("temperature", "C", "board"),
        ChannelName("temperature", "C", "t1"),
        ChannelName("humidity", "%", "t1"),
    ]


@pytest.mark.parametrize("interval_ms", [10, 1000, 60_000, 86_400_000])
def test_a_read_is_given_up_before_the_next_one_is_due(tmp_path: Path, interval_ms: int) -> None:
    (found,) = load(tmp_path, simulated(f"interval_ms = {interval_ms}"))
    assert found.pace.timeout_seconds < found.pace.guard_seconds < found.pace.interval_seconds


BAD_FILES = {
    "no TOML": ("[[device", "is not TOML"),
    "empty": ("", "at least one [[device]]"),
    "another table": ('[sensor]\nname = "x"', "unknown key 'sensor': allowed is [[device]]"),
    "no driver": ('[[device]]\nname = "x"', "device[0].driver is missing"),
    "driver unknown": ('[[device]]\ndriver = "gpio"', "'gpio': installed are command, hwmon, modbus, one_wire, simulated"),
    "no channel": ('[[device]]\ndriver = "simulated"', "device[0]: Object missing required field `channel`"),
    "key of the device": (simulated("intervall_ms = 5"), "device[0].intervall_ms is unknown: allowed are driver, name,"),
    "key of a channel": (simulated(channel=CHANNEL + "mean = 1\nmaen = 2"), "device[0].channel[0].maen is unknown: "),
    "missing key": (simulated(channel=CHANNEL), "device[0].channel[0]: Object missing required field `mean`"),
    "wrong type": (simulated(channel=CHANNEL + 'mean = "20"'), "device[0].channel[0].mean: Expected `float`, got `str`"),
    "interval": (simulated("interval_ms = 5"), "device[0].interval_ms: Expected `int` >= 10"),
    "timeout": (simulated("timeout_ms = 950"), "device[0].timeout_ms: 950 is not allowed: at most 900"),
    "metric": (simulated(channel='metric = "a b"\nunit = ""\nsensor = "t"\nmean = 1'), "metric 'a b' is not allowed: a letter"),
    "metric reserved": (simulated(channel='metric = "batch"\nunit = ""\nsensor = "t"\nmean = 1'), "metric 'batch'"),
    "sensor": (simulated(channel='metric = "a"\nunit = ""\nsensor = ""\nmean = 1'), "sensor '' is not allowed"),
    "unit": (simulated(channel='metric = "a"\nunit = "\\t"\nsensor = "t"\nmean = 1'), "unit '\\t' is not allowed"),
    "limits": (simulated(channel=CHANNEL + "mean = 1\nmin = 5\nmax = 4"), "min 5.0 is above max 4.0"),
    "not finite": (simulated(channel=CHANNEL + "mean = 1\nscale = nan"), "have to be finite numbers"),
    "twice": (simulated() + simulated(), "metric 'temperature' of sensor 't1' is described 2 times"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_wrong_key_is_named_with_what_is_allowed(tmp_path: Path, name: str) -> None:
    text, said = BAD_FILES[name]
    with pytest.raises(BadSensorsFile, match=re.escape(said)):
        load(tmp_path, text)


BAD_CHANNELS = {
    "hwmon: neither": ("hwmon", 'chip = "x"', "either `label` or `input` is needed"),
    "hwmon: both": ("hwmon", 'chip = "x"\nlabel = "a"\ninput = "temp1_input"', "either `label` or `input` is needed"),
    "hwmon: path": ("hwmon", 'chip = "x"\ninput = "../name"', "a file like 'temp1_input'"),
    "one_wire: id": ("one_wire", 'id = "28-xyz"', "device[0].channel[0].id: Expected `str` matching regex"),
    "modbus: type": ("modbus", 'register = 1\ntype = "int64"', "allowed are 'int16', 'uint16', 'int32', 'uint32', 'float32'"),
    "modbus: table": ("modbus", 'register = 1\ntable = "coil"', "allowed are 'holding', 'input'"),
    "modbus: past the end": ("modbus", 'register = 65535\ntype = "float32"', "needs two registers"),
    "modbus: unit": ("modbus", "register = 1\nunit_id = 256", "Expected `int` <= 255"),
    "command: key": ("command", 'key = "a b"', "device[0].channel[0].key: "),
}  # fmt: skip
DEVICE_KEYS = {"modbus": 'host = "192.0.2.7"', "command": 'command = ["true"]'}


@pytest.mark.parametrize("name", BAD_CHANNELS)
def test_a_drivers_own_keys_are_checked_too(tmp_path: Path, name: str) -> None:
    driver, keys, said = BAD_CHANNELS[name]
    text = f'[[device]]\ndriver = "{driver}"\n{DEVICE_KEYS.get(driver, "")}\n[[device.channel]]\n{CHANNEL}{keys}\n'
    with pytest.raises(BadSensorsFile, match=re.escape(said)):
        load(tmp_path, text)


def test_every_wrong_device_is_named_in_one_go(tmp_path: Path) -> None:
    with pytest.raises(BadSensorsFile) as caught:
        load(tmp_path, simulated("interval_ms = 1") + simulated("timeout_ms = 0"))
    assert "device[0].interval_ms" in str(caught.value)
    assert "device[1].timeout_ms" in str(caught.value)


async def test_the_agent_does_not_start_with_a_wrong_file(tmp_path: Path) -> None:
    path = tmp_path / "sensors.toml"
    path.write_text('[[device]]\ndriver = "command"\ncomand = ["true"]\n')
    environ = {"DEVICE_ID": "n1", "NODE_FORWARDER_SOCKET": str(tmp_path / "s"), "NODE_AGENT_SENSORS": str(path)}
    with pytest.raises(BadSettings, match=r"device\[0\].comand is unknown: allowed are driver, name, interval_ms"):
        await serve(environ, Lifetime("node-agent"))


def test_a_file_that_is_not_there_stops_the_start_as_a_wrong_setting_does(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="No such file"):
        load_sensors(tmp_path / "none.toml", 1000)


def test_a_node_has_no_more_channels_than_the_forwarder_takes(tmp_path: Path) -> None:
    channels = "".join(
        f'[[device.channel]]\nmetric = "m"\nunit = ""\nsensor = "s{at}"\nmean = 1\n'
        for at in range(CHANNELS_MAX // 2 + 1)
    )
    one = f'[[device]]\ndriver = "simulated"\n{channels}'
    with pytest.raises(BadSensorsFile, match=f"a node has at most {CHANNELS_MAX}"):
        load(tmp_path, one + one.replace('metric = "m"', 'metric = "n"'))


def test_our_drivers_are_found_as_anybody_elses_are() -> None:
    files = {path.stem for path in (ROOT / "src/farmiq/device/node_agent/drivers").glob("*.py")}
    shared = {"__init__", "plugin", "own_threads", "child", "program_lines", "registers"}
    ours = {point.name for point in entry_points(group=GROUP) if point.value.startswith("farmiq.device.node_agent.")}
    assert ours == files - shared


def page_block(language: str) -> str:
    """The first block of this language in the guide."""
    page = (ROOT / "docs/guides/sensors.md").read_text(encoding="utf-8")
    found = re.search(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


def test_the_guides_example_is_a_good_file_and_shows_every_real_driver(tmp_path: Path) -> None:
    found = load(tmp_path, page_block("toml"))
    assert {one.device.driver for one in found} == {"hwmon", "one_wire", "modbus", "command"}
    assert [one.name for one in found] == ["board", "water", "climate", "silo", "water-meter"]


PLUGIN_PACKAGE = {
    "acme_scale.py": page_block("python") + "\nNO_PLUGIN = 7\n",
    "acme-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n",
    "acme-1.0.dist-info/entry_points.txt": (
        "[farmiq.drivers]\nacme_scale = acme_scale:PLUGIN\nacme_gone = acme_gone:PLUGIN\nacme_odd = acme_scale:NO_PLUGIN\n"
        "modbus = acme_scale:PLUGIN\n"
    ),
}


@pytest.fixture
def plugin_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package of somebody else's, as pip would leave it: the guide's."""
    for name, text in PLUGIN_PACKAGE.items():
        path = tmp_path / "site" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))


async def test_the_guides_own_driver_is_found_and_read(tmp_path: Path, plugin_package: None) -> None:
    device = '[[device]]\ndriver = "acme_scale"\nport = "{}"\n[[device.channel]]\n' + CHANNEL
    (there,) = load(tmp_path, device.format("tty0"))
    (away,) = load(tmp_path, device.format("tty1"))
    assert await there.open(Clock()).read() == [812.5]
    assert await away.open(Clock()).read() == [Fault("no scale at tty1")]
    with pytest.raises(BadSensorsFile, match="missing required field `port`"):
        load(tmp_path, device.replace('port = "{}"\n', ""))


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        ("acme_gone", "'acme_gone' cannot be loaded from acme_gone:PLUGIN"),
        ("acme_odd", "is not a farmiq Plugin"),
        ("modbus", "more than one package brings a driver 'modbus': acme_scale:PLUGIN, farmiq."),
    ],
)
def test_a_package_that_brings_no_good_driver_is_named(
    tmp_path: Path, plugin_package: None, driver: str, said: str
) -> None:
    with pytest.raises(BadSensorsFile, match=re.escape(said)):
        load(tmp_path, f'[[device]]\ndriver = "{driver}"\n[[device.channel]]\n{CHANNEL}')
