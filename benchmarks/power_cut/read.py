"""What a store gives back after each of many cuts, and whether it goes on: one line of JSON for each folder.

    python -m power_cut.read STORE FOLDER...

Every folder is opened in a process of its own, forked when the store's code is loaded, and ended if it takes too long.
"""

import argparse
import json
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from power_cut.contenders import CONTENDERS
from stores import Reading, Store, poll

SECONDS_MAX = 120  # some stores take a transaction to give back a sample
NEXT_POLL = 1_000_000  # far above whatever was written before the cut
GOES_ON_SECONDS = 5.0


def looked_at(open_store: Callable[[Path], Store], folder: Path) -> dict[str, Any]:
    readings: list[Reading] = []
    found: dict[str, Any] = {"readings": readings, "failed": None, "goes_on": False}
    step = "open"
    try:
        store = open_store(folder)
        step = "read"
        readings.extend(store.readings())
        step = "go on"
        found["goes_on"] = goes_on(store)
    except Exception as error:  # noqa: BLE001 - whatever a store does with what is left of it is the outcome
        found["failed"] = f"{step}: {type(error).__name__}: {error}"
    return found


def goes_on(store: Store) -> bool:
    """Whether a poll that is written now can be read. A store that commits later has some time for it."""
    wanted = {(wall_us // 1000, channel) for wall_us, _monotonic, channel, _quality, _value in poll(NEXT_POLL)}
    store.append(poll(NEXT_POLL))
    store.sync()
    give_up_at = time.monotonic() + GOES_ON_SECONDS
    while wanted and time.monotonic() < give_up_at:
        wanted -= {(wall_ms, channel) for wall_ms, channel, _value in store.readings()}
    return not wanted


def in_a_process_of_its_own(open_store: Callable[[Path], Store], folder: Path) -> None:
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS_MAX)
        print(json.dumps(looked_at(open_store, folder)), flush=True)
        os._exit(0)
    _pid, status = os.waitpid(child, 0)
    if status != 0:
        ended = {"readings": [], "failed": f"read: ended by signal {os.WTERMSIG(status)}", "goes_on": False}
        print(json.dumps(ended), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=sorted(CONTENDERS))
    parser.add_argument("folders", type=Path, nargs="+")
    given = parser.parse_args()
    open_store = CONTENDERS[given.store].entry.load()
    sys.stdout.flush()
    for folder in given.folders:
        in_a_process_of_its_own(open_store, folder)


if __name__ == "__main__":
    main()
