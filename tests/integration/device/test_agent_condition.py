"""Which sensors fail is in the node's status, for as long as they do, and costs the others nothing."""

from collections.abc import Callable
from pathlib import Path

from integration.device.agent_world import logged, on_disk, status
from integration.device.node_world import Node
from support.waiting import wait_for

SENSORS = """
[[device]]
driver = "simulated"

[[device.channel]]
metric = "temperature"
unit = "C"
sensor = "good"
mean = 20

[[device]]
driver = "hwmon"
folder = "FOLDER"

[[device.channel]]
metric = "temperature"
unit = "C"
sensor = "pond"
chip = "pond"
input = "temp1_input"
min = -5
"""


def shows(node: Node, sensors: list[str]) -> Callable[[], bool]:
    def is_shown() -> bool:
        figures = status(node)
        return bool(figures.get("last_captured_seq")) and figures.get("faulty_sensors", []) == sensors

    return is_shown


def put_chip(folder: Path, name: str, millidegrees: int) -> Path:
    """Made aside and then moved to its place: the kernel never shows half of one."""
    folder.mkdir()
    (folder / "name").write_text(f"{name}\n")
    (folder / "temp1_input").write_text(f"{millidegrees}\n")
    return folder


def test_a_failing_sensor_shows_in_the_status_until_it_works_again(node: Node) -> None:
    hwmon = node.folder / "hwmon"
    hwmon.mkdir()
    (node.folder / "sensors.toml").write_text(SENSORS.replace("FOLDER", str(hwmon)))
    node.variables |= {"NODE_AGENT_SENSORS": str(node.folder / "sensors.toml"), "SAMPLE_INTERVAL_MS": "50"}
    with node.agent() as agent:
        with node.forwarder():
            wait_for(shows(node, ["pond"]), what="the sensor that is not there")
        (node.spool_folder / "status.json").unlink()
        with node.forwarder():
            wait_for(shows(node, ["pond"]), what="the same after the forwarder's restart")
            put_chip(node.folder / "chip", "pond", 4500).rename(hwmon / "hwmon4")
            wait_for(shows(node, []), what="the repair")
            (put_chip(node.folder / "chip", "pond", -40_000) / "temp1_input").rename(hwmon / "hwmon4" / "temp1_input")
            wait_for(shows(node, ["pond"]), what="a value that cannot be")
            agent.stop()
    assert [line["reason"] for line in logged(agent, "sensor_failed")] == [
        f"there is no chip pond in {hwmon}",
        "-40 C is below the limit of -5",
    ]
    assert len(logged(agent, "sensor_recovered")) == 1
    frames, _ = on_disk(node)
    assert {frame.value for frame in frames if frame.channel == 1} == {4.5}
    assert sum(frame.channel == 0 for frame in frames) > sum(frame.channel == 1 for frame in frames)
