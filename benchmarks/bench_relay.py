"""What the relay costs a link that is well: bytes a second through it, and the time of a small question and answer.

A server in a process of its own answers what it is sent. Each round asks it directly and through the relay, which is a process
of its own too, as in a farm; both over loopback, whose direct connection is the limit."""

import argparse
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from farmiq.stack.ports import free_port
from farmiq.stack.relay.client import RelayAway, RelayClient
from farmiq.stack.relay.program import Relay
from farmiq.stack.relay.route import Link, RouteSpec
from harness import Progress, Result, arguments, compared, in_turn, machine, quiet_logs, report, scratch, write_json

START_SECONDS = 20.0
CHUNK_BYTES = 64 * 1024
QUESTION_BYTES = 100
WAYS = ("direct", "relay")

# The first byte of a connection says what is wanted: "s" swallows until the end and answers once, "e" echoes.
_SERVER = """
import socket, threading
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
def serve(talk):
    talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with talk:
        kind, total = talk.recv(1), 0
        while data := talk.recv(1 << 18):
            total += len(data)
            if kind == b"e":
                talk.sendall(data)
        if kind == b"s":
            talk.sendall(str(total).encode())
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""


@dataclass(frozen=True)
class Plan:
    rounds: int
    megabytes: int
    questions: int


@contextmanager
def running_server() -> Iterator[int]:
    process = subprocess.Popen([sys.executable, "-c", _SERVER], stdout=subprocess.PIPE, text=True)
    try:
        yield int(process.stdout.readline() if process.stdout else 0)
    finally:
        process.kill()
        process.wait()


@contextmanager
def running_relay(folder: Path, target: int) -> Iterator[tuple[int, int]]:
    """Its process, and the port that leads to the target."""
    program = Relay(folder / "relay", folder / "r.sock", (RouteSpec("wan", (Link(free_port(), target),)),))
    program.prepare()
    with (folder / "relay.log").open("wb") as log:
        process = subprocess.Popen(program.command(), env=program.environment() | os.environ, stdout=log, stderr=log)
    try:
        _await_answer(program)
        yield process.pid, program.port
    finally:
        process.kill()
        process.wait()


def _await_answer(program: Relay) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with suppress(RelayAway):
            RelayClient(program.socket).look()
            return
        if time.monotonic() > deadline:
            raise TimeoutError("the relay did not start")
        time.sleep(0.05)


def megabytes_a_second(port: int, megabytes: int) -> float:
    data = bytes(CHUNK_BYTES)
    with socket.create_connection(("127.0.0.1", port)) as talk:
        began = time.perf_counter()
        talk.sendall(b"s")
        for _ in range(megabytes * 1_000_000 // CHUNK_BYTES):
            talk.sendall(data)
        talk.shutdown(socket.SHUT_WR)
        arrived = int(talk.recv(100))
        seconds = time.perf_counter() - began
    if arrived != megabytes * 1_000_000 // CHUNK_BYTES * CHUNK_BYTES:
        raise RuntimeError(f"only {arrived} bytes arrived")
    return arrived / seconds / 1e6


def microseconds_a_question(port: int, questions: int) -> float:
    data = bytes(QUESTION_BYTES)
    with socket.create_connection(("127.0.0.1", port)) as talk:
        talk.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        talk.sendall(b"e")
        began = time.perf_counter()
        for _ in range(questions):
            talk.sendall(data)
            left = QUESTION_BYTES
            while left:
                left -= len(talk.recv(left))
        return (time.perf_counter() - began) / questions * 1e6


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(plan: Plan, folder: Path, progress: Progress) -> list[Result]:
    stream: dict[str, dict[int, float]] = {way: {} for way in WAYS}
    question: dict[str, dict[int, float]] = {way: {} for way in WAYS}
    cpu_seconds = 0.0
    with running_server() as server, running_relay(folder, server) as (pid, relay):
        ports = {"direct": server, "relay": relay}
        for number in range(plan.rounds):
            for way in in_turn(WAYS, number):
                progress.step(f"round {number + 1}: {way}")
                stream[way][number] = megabytes_a_second(ports[way], plan.megabytes)
                cpu_before = _cpu_seconds(pid)
                question[way][number] = microseconds_a_question(ports[way], plan.questions)
                cpu_seconds += _cpu_seconds(pid) - cpu_before
    progress.end()
    against = "a direct connection"
    note = f"{cpu_seconds / plan.rounds / plan.questions * 1e6:.0f} us of the relay's CPU a question"
    return [
        compared("relay_stream", stream["relay"], against, stream["direct"], "MB/s"),
        compared(
            "relay_question", question["relay"], against, question["direct"], "us", is_better_below=True, note=note
        ),
    ]


def main() -> int:
    parser = arguments((__doc__ or "").split("\n\n", maxsplit=1)[0])
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--megabytes", type=int)
    parser.add_argument("--questions", type=int)
    options = parser.parse_args()
    plan = plan_of(options)
    quiet_logs()
    with scratch(options.folder) as folder:
        facts = machine(folder)
        results = measure(plan, folder, Progress(plan.rounds * len(WAYS)))
    report("The relay on a link that is well", results, facts, [])
    if options.json:
        write_json(options.json, "bench_relay", results, facts)
    return 0


def plan_of(options: argparse.Namespace) -> Plan:
    return Plan(
        options.rounds or (3 if options.quick else 9),
        options.megabytes or (200 if options.quick else 1000),
        options.questions or (2000 if options.quick else 20_000),
    )


if __name__ == "__main__":
    sys.exit(main())
