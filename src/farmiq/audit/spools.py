"""The nodes of this machine: their spools, looked at from outside while they are written."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import UUID

from farmiq.audit.streams import NodeAccount
from farmiq.spool.errors import SpoolError
from farmiq.spool.inspection import SpoolView, inspect
from farmiq.spool.streams import Part
from farmiq.timeseries.coverage import Span, normalise, shared


def local_spools(folders: Mapping[str, Path]) -> tuple[dict[str, dict[UUID, NodeAccount]], list[str]]:
    """By device and stream; and in words, which of them can't be looked into: of those, their device's own word is taken."""
    found: dict[str, dict[UUID, NodeAccount]] = {}
    troubles: list[str] = []
    for device_id, folder in folders.items():
        try:
            view = inspect(folder)
        except (SpoolError, OSError) as error:
            troubles.append(f"the spool of {device_id} can't be looked into: {error}")
            continue
        if view.stream_id is not None:
            found[device_id] = accounts_of(view)
    return found, troubles


def accounts_of(view: SpoolView) -> dict[UUID, NodeAccount]:
    """Of each stream that the spool has a part of, in the stream's own numbers. One that is over and acknowledged is left out: if
    this disk was set back, the edge has more of it than was ever written here."""
    held = normalise((first, last + 1) for first, last in view.held)
    lost = normalise((loss.first_seq, loss.last_seq + 1) for loss in view.losses)
    lost_acked = normalise((loss.first_seq, loss.last_seq + 1) for loss in view.losses if loss.is_acknowledged)
    captured_seq = max([view.synced_seq, *(end - 1 for _, end in held)])
    parts = view.layout.parts if view.layout else (Part(1, view.stream_id),) if view.stream_id else ()
    ends = [*(part.first_seq for part in parts[1:]), captured_seq + 1]
    return {
        part.stream_id: NodeAccount(
            captured_seq=max(0, end - 1 - part.offset),
            acked_seq=max(0, min(view.acked.seq, end - 1) - part.offset),
            held=_numbered(held, part, end),
            lost=_numbered(lost, part, end),
            lost_acked=_numbered(lost_acked, part, end),
        )
        for part, end in zip(parts, ends, strict=True)
        if part is parts[-1] or view.acked.seq < end - 1
    }


def _numbered(spans: list[Span], part: Part, end: int) -> list[Span]:
    return [(first - part.offset, last - part.offset) for first, last in shared(spans, [(part.first_seq, end)])]


def spools_below(devices: Path) -> Iterator[tuple[str, Path]]:
    """Those of a local farm: `devices/NAME/spool`."""
    for folder in sorted(devices.iterdir()) if devices.is_dir() else ():
        if (folder / "spool").is_dir():
            yield folder.name, folder / "spool"
