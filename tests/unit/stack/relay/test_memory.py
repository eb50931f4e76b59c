from pathlib import Path

from farmiq.stack.relay.faults import HEALTHY, Faults, RouteFaults, Timeout
from farmiq.stack.relay.memory import Memory


def test_what_was_told_is_found_again_and_what_is_well_is_not_kept(tmp_path: Path) -> None:
    memory = Memory(tmp_path / "faults.json")
    assert memory.load() == {}
    told = {
        "wan": RouteFaults(down=True),
        "broker": RouteFaults(upstream=Faults(timeout=Timeout())),
        "edge-db": HEALTHY,
    }
    memory.save(told)
    assert Memory(tmp_path / "faults.json").load() == {name: told[name] for name in ("wan", "broker")}
    memory.forget()
    memory.forget()
    assert memory.load() == {}


def test_a_file_that_cannot_be_read_is_set_aside_and_the_relay_starts(tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text('{"wan": {"down": tr')
    memory = Memory(path)
    assert memory.load() == {}
    assert (tmp_path / "faults.unreadable").read_text().startswith('{"wan"')
    memory.save({"wan": RouteFaults(down=True)})
    assert memory.load() == {"wan": RouteFaults(down=True)}
