"""Dead letters, and what was done with them, as a person reads them."""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from farmiq.cli.terminal import console, own_name, put, say

if TYPE_CHECKING:
    from rich.table import Table

    from farmiq.cloud.dead_letters.audit import Action
    from farmiq.cloud.dead_letters.course import Result
    from farmiq.cloud.dead_letters.summary import Summary
    from farmiq.cloud.dead_letters.views import LetterView


def show_summaries(summaries: "Sequence[Summary]") -> None:
    from rich.markup import escape

    table = _table("service", "reason", "event type", "letters", "first", "last", "for instance")
    for one in summaries:
        for group in one.groups:
            table.add_row(
                one.service,
                escape(group.reason),
                escape(group.event_type),
                f"{group.count:,}",
                moment(group.first_failed_at),
                moment(group.last_failed_at),
                escape(group.example_detail),
            )
    if table.row_count:
        put(console(), table)
    for one in summaries:
        say(f"{one.queue}: {counted(one.messages, 'letter')}" + ("" if one.seen >= one.messages else _not_all(one)))


def show_letters(views: "Sequence[LetterView]") -> None:
    from msgspec import json

    for view in views:
        letter = view.letter
        say(
            f"{letter.message_id or '-'}  {letter.event_type}  tenant {letter.tenant_id or '-'}  {moment(letter.failed_at)}"
        )
        say(f"  {letter.reason}: {letter.detail or '-'}")
        tries = counted(letter.attempts, "attempt") + (
            f", replayed {counted(letter.replays, 'time')}" if letter.replays else ""
        )
        say(f"  published on {letter.exchange or 'the default exchange'} as {letter.routing_key}, {tries}")
        body = json.encode(view.envelope) if view.envelope is not None else view.body
        say(
            f"  {_line(body)}"
            if body is not None
            else f"  {letter.body_bytes:,} bytes, more than a message of ours may have"
        )
    if not views:
        say(f"No letter is like that. {own_name()} dlq ls shows which there are.")


def show_result(verb: str, queue: str, result: "Result", *, is_dry_run: bool) -> None:
    counts = result.counts
    say(f"{queue}: looked at {counts.seen:,} of {result.messages:,}, {counts.matched:,} match.")
    if is_dry_run:
        say(f"Nothing was changed: this was a dry run. Without --dry-run they would be {verb}.")
        return
    say(
        f"{counts.done:,} {verb}"
        + (
            f", {counts.failed:,} have headers that can't be sent again as they are, and are still there."
            if counts.failed
            else "."
        )
    )
    say(f"Written down as action {result.action_id}.")


def show_actions(actions: "Sequence[Action]") -> None:
    from rich.markup import escape

    if not actions:
        say("No letter was ever replayed or discarded.")
        return
    table = _table("when", "who", "what", "service", "filter", "matched", "done", "failed", "result")
    for one in actions:
        told = " ".join(f"{name}={value}" for name, value in one.filter.items()) or "everything"
        what = f"{one.kind} (dry run)" if one.is_dry_run else one.kind
        table.add_row(
            moment(one.asked_at),
            escape(f"{one.asked_by} ({one.asked_over})"),
            what,
            one.service,
            escape(told),
            f"{one.matched:,}",
            f"{one.done:,}",
            f"{one.failed:,}",
            escape(one.error or ("finished" if one.finished_at else "under way, or cut short")),
        )
    put(console(), table)


def counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"


def moment(at: datetime | None) -> str:
    return "-" if at is None else f"{at:%Y-%m-%d %H:%M:%S}Z"


def _table(*columns: str) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column, overflow="fold", justify="right" if column in _NUMBERS else "left")
    return table


_NUMBERS = {"letters", "matched", "done", "failed"}


def _not_all(one: "Summary") -> str:
    return f", of which {one.seen:,} were looked at"


def _line(body: bytes) -> str:
    text = body.decode("utf-8", "backslashreplace")
    return text if len(text) <= 400 else f"{text[:400]}… ({len(body):,} bytes; --json shows all)"
