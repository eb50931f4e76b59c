"""The broker logins of devices that were added on this machine, kept in the home for `farmiq send`.

Only of a farm that runs here, whose home holds every other credential too, in a file that only its owner can read. The database
keeps a hash, and a device elsewhere keeps its own."""

from pathlib import Path

import msgspec
from msgspec import Struct

from farmiq.contracts.ids import check_device_id
from farmiq.stack.home import Home
from farmiq.stack.private_files import private_folder, write_private


class KeptLogin(Struct, frozen=True, kw_only=True):
    tenant_id: str
    farm_id: str
    barn_id: str
    device_id: str
    mqtt_url: str

    def __repr__(self) -> str:
        return f"KeptLogin({self.device_id!r}, ***)"


def keep(home: Home, login: KeptLogin) -> None:
    path = _file(home, login.device_id)
    private_folder(path.parent)
    write_private(path, msgspec.json.encode(login).decode())


def find(home: Home, device_id: str) -> KeptLogin | None:
    try:
        return msgspec.json.decode(_file(home, device_id).read_bytes(), type=KeptLogin)
    except FileNotFoundError:
        return None


def forget(home: Home, device_id: str) -> None:
    _file(home, device_id).unlink(missing_ok=True)


def _file(home: Home, device_id: str) -> Path:
    # A checked id has no slash and no leading dot, so it can't lead out of the folder.
    return home.path / "devices" / check_device_id(device_id) / "login.json"
