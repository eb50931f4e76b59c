"""What an audit tells: one sentence, a line for each device, each thing that is wrong, and the exit code."""

from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import TYPE_CHECKING

import msgspec
import typer

from farmiq import __version__
from farmiq.audit.balance import Balance
from farmiq.audit.device_hours import Hour
from farmiq.audit.devices import DeviceBalance
from farmiq.audit.findings import Finding
from farmiq.audit.held import HeldEvents
from farmiq.audit.streams import PLACES, Place
from farmiq.audit.weighings import WeighingBalance
from farmiq.cli import exits
from farmiq.cli.terminal import console, put, say

if TYPE_CHECKING:
    from rich.table import Table

DEVICES_SHOWN = 50
HOURS_SHOWN = 12
FINDINGS_SHOWN = 20
HELD_SHOWN = 20
ELSEWHERE_SHOWN = 20


def tell(verdict: Balance, *, as_json: bool) -> None:
    if as_json:
        # A month of a hundred devices has seventy thousand hours, over which the standard library takes seconds.
        say(msgspec.json.format(msgspec.json.encode(verdict), indent=2).decode())
    else:
        _show(verdict)
    if not verdict.balanced:
        raise typer.Exit(exits.UNBALANCED)


def sentence(verdict: Balance) -> str:
    devices = f"{len(verdict.devices)} {'device' if len(verdict.devices) == 1 else 'devices'}"
    sums = [f"{verdict.stored:,} stored in the cloud", f"{verdict.lost:,} declared lost"]
    sums.append(f"{verdict.in_flight:,} in flight{_places(verdict.in_flight_at)}")
    if verdict.dead_lettered:
        sums.append(f"{verdict.dead_lettered:,} dead letters")
    if verdict.unexplained:
        sums.append(f"{verdict.unexplained:,} unexplained")
    begin = "Balanced" if verdict.balanced else "Does not balance"
    return f"{begin}: {devices}, {verdict.captured:,} captured = {' + '.join(sums)}."


def weighing_sentence(weighing: WeighingBalance) -> str:
    sessions = f"{weighing.sessions:,} weigh sessions ({weighing.sessions_finalized:,} finalized, "
    sessions += f"{weighing.sessions_incomplete:,} incomplete), {weighing.sessions_in_cloud:,} in the cloud"
    pictures = f"{weighing.pictures:,} pictures at the edge = {weighing.pictures_in_cloud:,} in the cloud with the same SHA-256"
    flying = [
        (weighing.sessions_in_flight, "sessions on their way"),
        (weighing.pictures_in_flight, "pictures on their way"),
        (weighing.pictures_awaited, "pictures awaited from stations"),
        (weighing.pictures_missing, "pictures announced and never delivered"),
        (weighing.pictures_refused, "refused"),
        (weighing.station_events_waiting, "events at stations"),
    ]
    rest = "".join(f", {count:,} {what}" for count, what in flying if count)
    return f"{weighing.tenant_id}: {sessions}; {pictures}{rest}."


def finding_lines(finding: Finding) -> list[str]:
    where = f" at the {finding.tier}" if finding.tier else ""
    stream = f" of stream {finding.stream_id}" if finding.stream_id else ""
    span = f", sequences {finding.first_seq:,} to {finding.last_seq:,}" if finding.first_seq is not None else ""
    subject = finding.device_id or finding.subject
    return [
        f"✗ {subject}{where}: {finding.count:,}{span}{stream}",
        f"  {finding.what}",
        f"  last seen: {finding.last_seen}",
        f"  do this: {finding.fix}",
    ]


def held_lines(held: HeldEvents) -> list[str]:
    subject = held.device_id or held.session_id or held.tenant_id
    since = f" since {held.since:%Y-%m-%d %H:%M:%S} UTC" if held.since else ""
    events = "event" if held.events == 1 else "events"
    return [
        f"⏸ {subject}: {held.events:,} {events}{since}, in flight until a person decides",
        f"  {held.message} ({held.reason})",
        f"  do this: {held.command}",
    ]


def _show(verdict: Balance) -> None:
    say(f"farmiq {__version__}\n")
    say(sentence(verdict))
    say()
    page = console()
    put(page, devices_table(telling_first(verdict.devices)[:DEVICES_SHOWN]))
    _and_more(len(verdict.devices) - DEVICES_SHOWN, "devices")
    _show_hours(verdict)
    for weighing in verdict.weighings:
        if weighing.sessions or weighing.pictures or weighing.station_events_waiting:
            say(f"\n{weighing_sentence(weighing)}")
    for finding in verdict.findings[:FINDINGS_SHOWN]:
        say("\n" + "\n".join(finding_lines(finding)))
    _and_more(len(verdict.findings) - FINDINGS_SHOWN, "findings")
    for held in verdict.held[:HELD_SHOWN]:
        say("\n" + "\n".join(held_lines(held)))
    _and_more(len(verdict.held) - HELD_SHOWN, "devices and sessions that are held")
    say()
    for note in notes(verdict):
        say(f"· {note}")


def telling_first(devices: Iterable[DeviceBalance]) -> list[DeviceBalance]:
    """Those that do not balance, then those with something lost or on its way, then the others."""
    return sorted(devices, key=lambda device: (not device.findings, device.captured == device.stored))


def devices_table(devices: Iterable[DeviceBalance]) -> "Table":
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("device", no_wrap=True)
    for column in ("captured", "at edge", "in cloud", "lost", "in flight", "unexplained"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("rows counted", justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for device in devices:
        flying = sum(device.in_flight.values())
        figures = (device.captured, device.at_edge, device.stored, device.lost, flying, device.missing)
        mark = "[red]✗ does not balance[/]" if device.findings else "[green]✔[/]"
        table.add_row(device.device_id, *(f"{figure:,}" for figure in figures), _rows(device), mark)
    return table


def uneven_hours(verdict: Balance) -> list[tuple[str, Hour]]:
    """Those of which not everything is in the cloud: what nothing explains first, and then the newest."""
    uneven = [
        (device.device_id, hour) for device in verdict.devices for hour in device.hours if hour.captured != hour.stored
    ]
    return sorted(uneven, key=lambda one: (one[1].unexplained > 0, one[1].hour_at), reverse=True)


def notes(verdict: Balance) -> list[str]:
    said = [device for device in verdict.devices if device.said_at is not None]
    uncounted = [device for device in verdict.devices if None in device.rows_counted.values()]
    found = [f"Duplicates removed since the services started: {verdict.duplicates_removed:,}. Stored twice: "]
    found[0] += (
        f"{verdict.stored_twice:,}." if not uncounted else f"{verdict.stored_twice:,} of the rows that were counted."
    )
    alike, unknown = (sum(map(attrgetter(f"content_{name}"), verdict.devices)) for name in ("alike", "unknown"))
    if alike or unknown:
        found.append(
            f"Content: {alike:,} samples have the same time, metric and value at both tiers, by digest or row."
        )
    if unknown:
        found[-1] += (
            f" {unknown:,} were not compared: stored before there were digests, or their block is not full yet."
        )
    if verdict.events_waiting:
        waiting = ", ".join(f"{count:,} {name}" for name, count in sorted(verdict.events_waiting.items()))
        found.append(f"Other events that wait in the edge's outbox: {waiting}.")
    if uncounted:
        found.append(
            f"Of {len(uncounted)} devices coverage was compared with the aggregates only: --deep counts every row."
        )
    if said:
        oldest = min(device.said_at for device in said if device.said_at is not None)
        found.append(
            f"The spools of {len(said)} devices are not on this machine: what they hold is what they said last, "
            f"at the earliest {oldest:%Y-%m-%d %H:%M:%S} UTC."
        )
    if verdict.elsewhere:
        named = ", ".join(verdict.elsewhere[:ELSEWHERE_SHOWN])
        more = len(verdict.elsewhere) - ELSEWHERE_SHOWN
        found.append(
            f"The cloud has {len(verdict.elsewhere)} more devices, of which this edge has no record; they were not audited: "
            f"{named}{f' and {more:,} more (--json)' if more > 0 else ''}. Another edge's, or forgotten by this one?"
        )
    return found + verdict.notes


def _show_hours(verdict: Balance) -> None:
    uneven = uneven_hours(verdict)
    if not uneven:
        return
    say("\nHours of which not everything is in the cloud:")
    for device_id, hour in uneven[:HOURS_SHOWN]:
        unexplained = f", unexplained {hour.unexplained:,}" if hour.unexplained else ""
        say(
            f"  {device_id}  {hour.hour_at:%Y-%m-%d %H}:00  captured {hour.captured:,}, at the edge {hour.edge_stored:,}, "
            f"in the cloud {hour.stored:,}, lost {hour.lost:,}, on the way {hour.in_flight:,}{unexplained}"
        )
    _and_more(len(uneven) - HOURS_SHOWN, "hours")


def _rows(device: DeviceBalance) -> str:
    counted = device.rows_counted
    return " / ".join("-" if counted[tier] is None else f"{counted[tier]:,}" for tier in ("edge", "cloud"))


def _places(places: Mapping[Place, int]) -> str:
    if not places:
        return ""
    return f" ({', '.join(f'{PLACES[place]} {samples:,}' for place, samples in places.items())})"


def _and_more(count: int, what: str) -> None:
    if count > 0:
        say(f"  and {count:,} more {what}: --json has them all")
