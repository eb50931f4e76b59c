"""Where the services of an audit are, and asking them."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import msgspec

from farmiq.audit import asking
from farmiq.audit.asking import Question, read
from farmiq.audit.balance import Balance, with_more
from farmiq.audit.rounds import look_until_sure
from farmiq.audit.spools import spools_below
from farmiq.cli.audit_objects import check_objects
from farmiq.cli.audit_progress import showing_devices
from farmiq.cli.dlq_filters import moment_of
from farmiq.cli.errors import BadUsage, CommandFailed, NotRunning
from farmiq.cli.running import running_environment, this_home
from farmiq.console.neighbours import Away, Neighbours, Refused
from farmiq.contracts.ids import InvalidId, check_id
from farmiq.contracts.services import SERVICES
from farmiq.kit import logging
from farmiq.kit.http_client import open_session
from farmiq.stack import device_secrets
from farmiq.stack.demo_farm import TENANT_ID

ROWS_MAX: Final = 2_000_000
"""Rows that are counted without being asked for: about a second at each tier."""
ROWS_ALL: Final = 10**15
ANSWER_BYTES_MAX: Final = 64 << 20
ASK_SECONDS_MAX: Final = 60.0


async def run_audit(
    tenant: str | None,
    device: str | None,
    since: str | None,
    *,
    is_deep: bool,
    is_quiet: bool,
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> Balance:
    logging.configure("CRITICAL")
    environment, is_local = _environment(os.environ)
    now = datetime.now(UTC)
    folders = dict(spools_below(this_home().path / "devices"))
    asked = Question(
        tenant_id=_checked("--tenant", tenant),
        own_tenants=[TENANT_ID] if is_local else [],
        device_id=_checked("--device", device),
        since=moment_of("--since", since, now),
        asked_at=now,
        rows_max=ROWS_ALL if is_deep else ROWS_MAX,
        is_exact=is_deep,
        spool_folders=folders,
        spool_tenants=_tenants_of(folders) if is_local else {},
    )
    addresses = {service.name: environment.get(service.url_variable, "").rstrip("/") for service in SERVICES}
    tokens = {
        tier: environment.get(f"{tier.upper()}_ADMIN_TOKEN") or environment.get("ADMIN_TOKEN")
        for tier in ("edge", "cloud")
    }
    async with open_session("audit", total_seconds=ASK_SECONDS_MAX) as session:
        known = {name: url for name, url in addresses.items() if url}
        neighbours = Neighbours(session, known, tokens, ANSWER_BYTES_MAX)
        try:
            with showing_devices(is_quiet=is_quiet) as on_devices:
                verdict = await look_until_sure(lambda: read(neighbours, asked, on_devices), pause)
        except (Away, Refused) as error:
            raise CommandFailed(
                f"the audit could not be finished: {error}",
                why="Every tier has to be asked before anybody can say that nothing is missing.",
                fix="farmiq status shows what runs; of services elsewhere set ..._URL, EDGE_ADMIN_TOKEN, CLOUD_ADMIN_TOKEN",
            ) from error
    if device is not None:
        return with_more(verdict, [], notes_of_one(verdict, device, since))
    return with_more(verdict, *await check_objects(verdict, environment, tenant, is_deep=is_deep))


_OF_THE_EDGE: Final = "The audit is of the devices of one edge."


def notes_of_one(verdict: Balance, device: str, since: str | None) -> list[str]:
    """What was not judged of the one device that was asked for. Raises `BadUsage` where the edge does not know it."""
    has_weighed = any(one.sessions or one.pictures for one in verdict.weighings)
    if device in verdict.elsewhere:
        raise BadUsage(f"this edge has no record of the device {device}", why=_OF_THE_EDGE, fix="farmiq device ls")
    if not (verdict.devices or verdict.quiet or has_weighed):
        raise BadUsage(f"no tier has ever heard of the device {device}", why=_OF_THE_EDGE, fix="farmiq device ls")
    notes = []
    if device in verdict.quiet:
        notes.append(f"The edge knows {device}, and nothing was measured by it {f'since {since}' if since else 'yet'}.")
    if any(one.pictures for one in verdict.weighings):
        notes.append("Whether the pictures are in the object stores is looked at without --device only.")
    return notes


def _tenants_of(device_ids: Iterable[str]) -> dict[str, str]:
    """Of the devices that were added on this machine, as far as their logins can be read."""
    tenants = {}
    for name in device_ids:
        with suppress(InvalidId, OSError, msgspec.MsgspecError):
            login = device_secrets.find(this_home(), name)
            if login is not None:
                tenants[name] = login.tenant_id
    return tenants


def _checked(option: str, name: str | None) -> str | None:
    try:
        return name if name is None else check_id(option, name)
    except InvalidId as error:
        raise BadUsage(str(error), why="It can be no id.", fix="farmiq device ls shows which there are") from error


def _environment(environ: Mapping[str, str]) -> tuple[dict[str, str], bool]:
    """The farm that runs here, with whatever the environment says otherwise; and whether it is a farm of this machine."""
    try:
        farm = running_environment(environ)
    except NotRunning:
        if all(_variable(name) in environ for name in asking.SERVICES):
            return dict(environ), False
        raise
    return farm | {name: value for name, value in environ.items() if name.endswith(("_URL", "ADMIN_TOKEN"))}, True


def _variable(service: str) -> str:
    return next(one.url_variable for one in SERVICES if one.name == service)
