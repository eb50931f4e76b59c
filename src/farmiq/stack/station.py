"""The weigh station of the demo farm: its folder, its settings, and who it weighs.

It is a simulated one (`farmiq.sim.station`). Batches come and go by the calendar, so every farm that runs on one day weighs
animals of one age, and their weights against the date are the growth of pigs."""

from datetime import date, timedelta
from pathlib import Path

from farmiq.stack import demo_farm
from farmiq.stack.home import Home
from farmiq.stack.private_files import private_folder, write_private
from farmiq.stack.secrets import Secrets

BATCH_DAYS = 98
_FIRST_BATCH_ON = date(2024, 1, 1)

# A demonstration on a small machine: it keeps less than a station whose edge may be away for days, and leaves less room free.
_PICTURES_BYTES_MAX = 256 << 20
_KEEP_FREE_BYTES = 64 << 20

# The first animal within a minute, with time enough for it to stand still; 1,920 weighings a day.
_FILE = """\
# Written by farmiq at each start: changes made here do not last.
[camera]
driver = "simulated"
{herd}
[scale]
driver = "simulated"
{herd}
[session]
batch_id = "batch-{arrived_on}"
pictures = 2

[schedule]
every_seconds = 600
"""
_HERD = """\
seed = 1
herd = 24
period_seconds = 45
stay_seconds = 20
arrived_on = {arrived_on}
"""


def station_variables(home: Home, secrets: Secrets) -> dict[str, str]:
    folder = home.station_folder(demo_farm.STATION_ID)
    return {
        "TENANT_ID": demo_farm.TENANT_ID,
        "FARM_ID": demo_farm.FARM_ID,
        "BARN_ID": demo_farm.BARN_ID,
        "DEVICE_ID": demo_farm.STATION_ID,
        "HTTP_TOKEN": secrets.station_token,
        "WEIGHVISION_STATION": str(folder / "station.toml"),
        "WEIGHVISION_QUEUE_DIR": str(folder / "queue"),
        "WEIGHVISION_PICTURES_BYTES_MAX": str(_PICTURES_BYTES_MAX),
        "WEIGHVISION_KEEP_FREE_BYTES": str(_KEEP_FREE_BYTES),
    }


def write_station_file(path: Path, today: date) -> None:
    private_folder(path.parent)
    write_private(path, station_file(today))


def station_file(today: date) -> str:
    arrived_on = batch_of(today)
    return _FILE.format(herd=_HERD.format(arrived_on=arrived_on), arrived_on=arrived_on)


def batch_of(today: date) -> date:
    """The day on which the batch came that is in the barn today."""
    days = (today - _FIRST_BATCH_ON).days
    return _FIRST_BATCH_ON + timedelta(days=days - days % BATCH_DAYS)
