"""A database as asyncpg shows it: a pool, transactions, and the statements of the services, each by its own text.

What is a model here: transactions run one after the other, so there is no isolation to get wrong. What each statement does is
written out in the `*_tables` modules; a statement that nobody has written down there ends the run. Rows are never changed in
place, so a copy of the tables is a snapshot: of a transaction's start, of the last commit that was synced, of a backup.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import Any
from uuid import UUID

import asyncpg

from simulation.chance import Chance, Trace
from simulation.machine import Machine
from simulation.process import PROCESS, Process
from simulation.virtual_loop import VirtualLoop

Tables = dict[str, dict[Any, Any]]
Statement = Callable[..., Any]
"""Of the database and the statement's arguments. Answers rows, or the number of rows for `execute`."""


class Row(dict[str, Any]):
    """By name, or by place."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, int | slice):
            return list(self.values())[key]
        return super().__getitem__(key)


class Database:
    def __init__(
        self,
        name: str,
        loop: VirtualLoop,
        chance: Chance,
        trace: Trace,
        machine: Machine,
        statements: Mapping[str, Statement],
        tables: Tables,
    ) -> None:
        self.name = name
        self.machine = machine
        self.tables = tables
        self.trouble = 0.0  # the share of calls that go wrong
        self.unregistered: set[str] = set()  # devices that a person has taken out of the register
        self.notified: list[Callable[[], None]] = []
        self.broken: list[str] = []  # what no database would ever have let happen
        self.loop = loop
        self._chance = chance
        self._trace = trace
        self._statements = statements
        self._synced = self.snapshot()
        self._is_up = True
        self._life = 0
        self._holder: Transaction | None = None
        self._waiting: deque[tuple[Transaction, asyncio.Future[None]]] = deque()

    @property
    def now(self) -> datetime:
        return self.machine.now()

    def new_id(self) -> UUID:
        return self._chance.new_id(self.loop.time())

    def snapshot(self) -> Tables:
        return {name: dict(rows) for name, rows in self.tables.items()}

    def committed_tables(self) -> Tables:
        """As everybody but the holder of the turn sees them."""
        if self._holder is not None and self._holder.before is not None:
            return self._holder.before
        return self.snapshot()

    def pool(self) -> "Pool":
        return Pool(self)

    # What befalls it

    def crash(self) -> None:
        """Whatever was under way is undone. What was committed without a sync may be undone too."""
        self._is_up = False
        self._life += 1
        if self._holder is not None:
            self._holder.undo()
        if self._chance.happens(0.5):
            self.tables = {name: dict(rows) for name, rows in self._synced.items()}

    def start(self) -> None:
        self._is_up = True

    def restore(self, backup: Tables) -> None:
        self.crash()
        self.tables = {name: dict(rows) for name, rows in backup.items()}
        self._synced = self.snapshot()

    # What the services ask

    async def call(self, life: int) -> None:
        """The way there: mostly too short to matter, and it may end nowhere."""
        await self.loop.step()
        _here().check()
        if self._chance.happens(0.3):
            await self.loop.pause(self._chance.seconds(0.0003, 0.05 if self.trouble else 0.005))
        self._require(life)
        if self._chance.happens(self.trouble):
            raise asyncpg.ConnectionDoesNotExistError("connection was closed in the middle of operation")

    def connected(self) -> int:
        if not self._is_up:
            raise ConnectionRefusedError(f"{self.name}: connection refused")
        return self._life

    def is_held_by(self, process: Process) -> bool:
        return self._holder is not None and self._holder.process is process

    def do(self, sql: str, *args: Any) -> Any:
        _here().check()
        if sql.startswith(("SET LOCAL ", "SELECT ensure_month_partition")):
            return []
        statement = self._statements.get(sql)
        if statement is None:
            self.broken.append(f"a statement without a model: {sql[:200]}")
            raise AssertionError(self.broken[-1])
        return statement(self, *args)

    async def take_turn(self, transaction: "Transaction") -> None:
        if self._holder is not None:
            turn = self.loop.create_future()
            self._waiting.append((transaction, turn))
            await turn
        else:
            self._holder = transaction

    def give_turn(self, transaction: "Transaction") -> None:
        if self._holder is not transaction:
            return
        self._holder = None
        while self._waiting and self._holder is None:
            following, turn = self._waiting.popleft()
            if following.process.is_alive and not turn.done():
                self._holder = following
                turn.set_result(None)

    def committed(self, *, is_synced: bool) -> None:
        if is_synced:
            self.sync()

    def sync(self) -> None:
        """Everything committed so far is on the disk."""
        self._synced = self.snapshot()

    async def answer(self) -> None:
        """The way back. Whoever is killed here has done it and does not know."""
        await self.loop.step()
        if self._chance.happens(self.trouble):
            raise asyncpg.ConnectionDoesNotExistError("connection was closed while the answer was under way")

    def _require(self, life: int) -> None:
        if not self._is_up or life != self._life:
            raise asyncpg.ConnectionDoesNotExistError(f"{self.name}: the server closed the connection unexpectedly")


class Transaction:
    def __init__(self, connection: "Connection") -> None:
        self.process = _here()
        self.database = connection.database
        self._connection = connection
        self.before: Tables | None = None

    async def __aenter__(self) -> "Transaction":
        await self.begin()
        self.before = self.database.snapshot()
        self._connection.transaction_open = self
        return self

    async def begin(self) -> None:
        await self.database.call(self._connection.life)
        self.process.at_end.append(self.undo)
        await self.database.take_turn(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        try:
            if kind is None:
                await self.database.call(self._connection.life)
                self.commit()
        finally:
            self.undo()
        if kind is None:
            await self.database.answer()

    def close(self) -> None:
        self._connection.transaction_open = None

    def commit(self) -> None:
        self.process.check()
        if self.before is not None:  # else somebody has undone it already
            self.before = None
            self.database.committed(is_synced=True)
        self.undo()

    def undo(self) -> None:
        if self.before is not None:
            self.database.tables = self.before
            self.before = None
        if self.undo in self.process.at_end:
            self.process.at_end.remove(self.undo)
        self.database.give_turn(self)


class Savepoint:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.before: Tables = {}

    async def __aenter__(self) -> None:
        self.before = self._database.snapshot()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._database.tables = self.before


class Connection:
    def __init__(self, database: Database) -> None:
        self.database = database
        self.life = database.connected()
        self.transaction_open: Transaction | None = None

    def is_in_transaction(self) -> bool:
        return self.transaction_open is not None

    def transaction(self, **_options: object) -> Transaction | Savepoint:
        return Savepoint(self.database) if self.transaction_open else Transaction(self)

    async def _do(self, sql: str, *args: Any) -> Any:
        if self.transaction_open:
            await self.database.call(self.life)
            return self.database.do(sql, *args)
        alone = Transaction(self)
        await alone.begin()
        try:
            answer = self.database.do(sql, *args)
            # Claims are committed without a sync: `outbox/claim.py` says why.
            self.database.committed(is_synced="synchronous_commit" not in sql)
        finally:
            alone.undo()
        await self.database.answer()
        return answer

    async def fetch(self, sql: str, *args: Any) -> list[Row]:
        rows: list[Row] = await self._do(sql, *args)
        return rows

    async def fetchrow(self, sql: str, *args: Any) -> Row | None:
        rows = await self.fetch(sql, *args)
        return rows[0] if rows else None

    async def fetchval(self, sql: str, *args: Any) -> Any:
        row = await self.fetchrow(sql, *args)
        return row[0] if row else None

    async def execute(self, sql: str, *args: Any) -> str:
        done = await self._do(sql, *args)
        return f"{sql.split(maxsplit=1)[0]} {done if isinstance(done, int) else len(done or [])}"

    async def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        for row in rows:
            await self._do(sql, *row)

    async def copy_records_to_table(self, table: str, *, records: Sequence[Any], columns: Sequence[str]) -> None:
        await self._do(f"COPY {table}", records, columns)

    async def copy_to_table(
        self, table: str, *, source: AsyncIterator[bytes], columns: Sequence[str], **_options: str
    ) -> None:
        await self._do(f"COPY {table}", b"".join([part async for part in source]), columns)


class Pool:
    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def acquire(self, **_patience: float) -> AsyncIterator[Connection]:
        yield Connection(self._database)

    async def execute(self, sql: str, *args: Any) -> str:
        async with self.acquire() as connection:
            return await connection.execute(sql, *args)


def _here() -> Process:
    process = PROCESS.get()
    assert process is not None, "only processes talk to a database"
    return process
