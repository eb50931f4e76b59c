"""What this station has and how it weighs: a TOML file. Without one, a simulated station.

Every wrong key is named with what is allowed, and nothing starts before the whole file is right.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

from msgspec import Meta, Struct

from farmiq.contracts.ids import InvalidId, check_id
from farmiq.device.toml_tables import BadTable, as_struct
from farmiq.device.weighvision_agent.detection import Rules
from farmiq.device.weighvision_agent.drivers import CameraPlugin, CameraTable, ScalePlugin, ScaleTable
from farmiq.device.weighvision_agent.plugins import camera_named, scale_named
from farmiq.kit.settings import BadSettings

SIMULATED: Final[Mapping[str, Any]] = {"camera": {"driver": "simulated"}, "scale": {"driver": "simulated"}}
PICTURE_BYTES_MAX: Final = 10 * 1024 * 1024
"""More than that no edge takes."""


class BadStationFile(BadSettings):
    """The station file cannot be used. The message names each wrong key and what is allowed."""

    code = "bad_station_file"


class SessionTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    # Lighter than that is dirt, a bird, or the scale's own drift.
    detect_kg: Annotated[float, Meta(gt=0, le=10_000)] = 5.0
    # Heavier than that is more than one animal.
    max_kg: Annotated[float, Meta(gt=0, le=100_000)] = 2000.0
    stable_window_seconds: Annotated[float, Meta(gt=0, le=60)] = 2.0
    stable_tolerance_kg: Annotated[float, Meta(gt=0, le=1000)] = 0.5
    pictures: Annotated[int, Meta(ge=1, le=100)] = 3
    picture_interval_seconds: Annotated[float, Meta(ge=0, le=60)] = 1.0
    # A session ends after so long with the pictures that it has.
    seconds_max: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    batch_id: str | None = None

    def __post_init__(self) -> None:
        if self.max_kg <= self.detect_kg:
            raise ValueError(f"max_kg {self.max_kg:g} has to be above detect_kg {self.detect_kg:g}")
        if self.batch_id is not None:
            try:
                check_id("batch_id", self.batch_id)
            except InvalidId as error:
                raise ValueError(str(error)) from error

    def rules(self, scale: ScaleTable) -> Rules:
        return Rules(
            self.detect_kg, self.stable_window_seconds, self.stable_tolerance_kg, self.max_kg, scale.timeout_seconds
        )


class ScheduleTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Pictures without a session. `with_weight` sends what the scale shows at that moment as a reading beside them."""

    every_seconds: Annotated[float, Meta(ge=1, le=86_400)]
    with_weight: bool = False


class PictureTable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Only what is larger is scaled and written anew; everything else is sent as the camera gave it."""

    edge_pixels_max: Annotated[int, Meta(ge=64, le=16_384)] = 1920
    jpeg_quality: Annotated[int, Meta(ge=50, le=100)] = 90
    bytes_max: Annotated[int, Meta(ge=1024, le=PICTURE_BYTES_MAX)] = PICTURE_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Station:
    camera: CameraTable
    camera_plugin: CameraPlugin[Any]
    scale: ScaleTable
    scale_plugin: ScalePlugin[Any]
    session: SessionTable
    schedule: ScheduleTable | None
    picture: PictureTable


def load_station(path: str | None) -> Station:
    if path is None:
        return _station(SIMULATED, "the simulated station")
    return _station(_tables(Path(path)), f"WEIGHVISION_STATION={path}")


def _station(tables: Mapping[str, Any], where: str) -> Station:
    problems: list[str] = []
    allowed = ("camera", "scale", "session", "schedule", "picture")
    problems += [f"unknown table [{name}]: allowed are {', '.join(allowed)}" for name in tables if name not in allowed]

    def take(name: str, kind: Any) -> Any:
        try:
            return as_struct(_table(tables, name), kind, name)
        except BadTable as error:
            problems.append(str(error))

    camera_plugin, scale_plugin = None, None
    try:
        camera_plugin = camera_named(_driver(tables, "camera"))
        scale_plugin = scale_named(_driver(tables, "scale"))
    except BadTable as error:
        problems.append(str(error))
    camera = take("camera", camera_plugin.table) if camera_plugin else None
    scale = take("scale", scale_plugin.table) if scale_plugin else None
    session = take("session", SessionTable)
    schedule = take("schedule", ScheduleTable) if "schedule" in tables else None
    picture = take("picture", PictureTable)
    if problems or camera_plugin is None or scale_plugin is None or camera is None or scale is None:
        raise BadStationFile(f"{where}: " + "; ".join(problems))
    return Station(camera, camera_plugin, scale, scale_plugin, session, schedule, picture)


def _table(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    table = tables.get(name, {})
    if not isinstance(table, Mapping):
        raise BadTable(f"{name} has to be a table: [{name}]")
    return table


def _driver(tables: Mapping[str, Any], name: str) -> str:
    driver = _table(tables, name).get("driver")
    if not isinstance(driver, str):
        raise BadTable(f"{name}.driver is missing: the name of a driver, in quotes")
    return driver


def _tables(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadStationFile(f"WEIGHVISION_STATION={path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadStationFile(f"WEIGHVISION_STATION={path} is not TOML: {error}") from error
