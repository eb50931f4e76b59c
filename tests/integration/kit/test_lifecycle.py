"""How a process with services in it starts, drains and ends: real processes, real signals, real exit codes."""

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from farmiq.kit.errors import Transient
from farmiq.kit.http_client import call, open_session
from farmiq.stack.ports import free_port
from support.waiting import eventually


class Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self) -> tuple[int, list[dict[str, Any]]]:
        """The exit code and the log lines."""
        out, _ = await asyncio.wait_for(self._process.communicate(), 30)
        assert self._process.returncode is not None
        return self._process.returncode, [json.loads(line) for line in out.splitlines()]


@asynccontextmanager
async def child(*services: str) -> AsyncIterator[Child]:
    program = str(Path(__file__).with_name("lifecycle_child.py"))
    process = await asyncio.create_subprocess_exec(sys.executable, program, *services, stdout=asyncio.subprocess.PIPE)
    try:
        yield Child(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def health_of(port: int) -> dict[str, Any]:
    async with open_session("test") as session:

        async def ask() -> bytes:
            try:
                return (await call(session, "GET", f"http://127.0.0.1:{port}/api/health")).body
            except Transient:
                return b""

        health: dict[str, Any] = json.loads(await eventually(ask, seconds=30))
        return health


def named(lines: list[dict[str, Any]], message: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["message"] == message]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_lets_the_service_finish_its_work_and_ends_with_success(number: signal.Signals) -> None:
    port = free_port()
    async with child(f"drains:{port}") as process:
        await health_of(port)
        process.signal(number)
        code, lines = await process.end()

    assert code == 0
    assert [line["message"] for line in lines] == ["service_started", "port_opened", "work_finished", "service_stopped"]
    assert {line["service"] for line in lines} == {"drains-service"}


async def test_several_services_in_one_process_keep_their_own_ports_and_all_drain() -> None:
    ports = [free_port(), free_port()]
    async with child(*(f"drains:{port}" for port in ports)) as process:
        answers = [await health_of(port) for port in ports]
        process.signal(signal.SIGTERM)
        code, lines = await process.end()

    assert [answer["status"] for answer in answers] == ["ok", "ok"]
    assert code == 0
    assert sorted(line["port"] for line in named(lines, "work_finished")) == sorted(ports)


async def test_a_service_that_fails_ends_the_process_after_the_others_have_drained() -> None:
    async with child(f"drains:{free_port()}", "fails") as process:
        code, lines = await process.end()

    assert code == 1
    assert len(named(lines, "work_finished")) == 1
    [failure] = named(lines, "service_failed")
    assert failure["service"] == "fails-service"
    assert "postgresql://user:***@host/db is gone" in failure["exception"]


async def test_wrong_settings_end_the_process_with_a_code_that_says_starting_again_will_not_help() -> None:
    async with child("misconfigured") as process:
        code, lines = await process.end()

    assert code == 78
    [refusal] = named(lines, "settings_refused")
    assert "PORT is 'many'" in refusal["reason"]
    assert "exception" not in refusal


async def test_a_port_that_is_taken_ends_the_process_and_is_named() -> None:
    port = free_port()
    async with child(f"drains:{port}", f"drains:{port}") as process:
        code, lines = await process.end()

    assert code == 1
    [failure] = named(lines, "service_failed")
    assert f"127.0.0.1:{port} can't be listened on" in failure["reason"]


async def test_a_service_that_does_not_end_is_cut_off_and_the_process_says_so() -> None:
    port = free_port()
    async with child(f"drains:{port}", "stuck") as process:
        await health_of(port)
        process.signal(signal.SIGTERM)
        code, lines = await process.end()

    assert code == 1
    [late] = named(lines, "drain_timed_out")
    assert late["service"] == "stuck-service"
