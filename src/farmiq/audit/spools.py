"""The nodes of this machine: their spools, looked at from outside while they are written."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from uuid import UUID

from farmiq.audit.streams import NodeAccount
from farmiq.spool.errors import SpoolError
from farmiq.spool.inspection import SpoolView, inspect
from farmiq.timeseries.coverage import normalise


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
            found[device_id] = {view.stream_id: account_of(view)}
    return found, troubles


def account_of(view: SpoolView) -> NodeAccount:
    held = normalise((first, last + 1) for first, last in view.held)
    return NodeAccount(
        captured_seq=max([view.synced_seq, *(end - 1 for _, end in held)]),
        acked_seq=view.acked.seq,
        held=held,
        lost=normalise((loss.first_seq, loss.last_seq + 1) for loss in view.losses),
        lost_acked=normalise((loss.first_seq, loss.last_seq + 1) for loss in view.losses if loss.is_acknowledged),
    )


def spools_below(devices: Path) -> Iterator[tuple[str, Path]]:
    """Those of a local farm: `devices/NAME/spool`."""
    for folder in sorted(devices.iterdir()) if devices.is_dir() else ():
        if (folder / "spool").is_dir():
            yield folder.name, folder / "spool"
