"""One store, written to at a steady pace until its time is over. What it was given and what it acknowledged is noted elsewhere.

    python -m power_cut.write STORE FOLDER NOTES --seconds S --polls-a-second N

A poll is one sample of each channel. It ends without closing anything: it is the log of its calls that counts.
"""

import argparse
import os
import time
from pathlib import Path

from power_cut.contenders import CONTENDERS
from stores import poll

BEGUN, GIVEN, ACKNOWLEDGED = "begun", "given", "acknowledged"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", choices=sorted(CONTENDERS))
    parser.add_argument("folder", type=Path)
    parser.add_argument("notes", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--polls-a-second", type=float, required=True)
    given = parser.parse_args()
    contender = CONTENDERS[given.store]
    store = contender.entry.load()(given.folder)
    notes = os.open(given.notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(notes, f"{BEGUN}\n".encode())
    begun_at = time.monotonic()
    number = 0
    while (due := number / given.polls_a_second) < given.seconds and time.monotonic() - begun_at < given.seconds:
        time.sleep(max(0.0, begun_at + due - time.monotonic()))
        os.write(notes, f"{GIVEN} {number}\n".encode())
        store.append(poll(number))
        if contender.is_told_by_sync:
            store.sync()
        os.write(notes, f"{ACKNOWLEDGED} {number}\n".encode())
        number += 1
    os._exit(0)


if __name__ == "__main__":
    main()
