"""The demo farm's weigh station: a batch that comes and goes by the calendar, in a file that the agent takes."""

from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from statistics import fmean

import pytest

from farmiq.device.weighvision_agent.settings import StationSettings
from farmiq.device.weighvision_agent.station_file import Station, load_station
from farmiq.kit.settings import load
from farmiq.sim.samples import HEAVIEST_KG, LIGHTEST_KG
from farmiq.sim.station import FIRST_DAY, LAST_DAY, HerdCameraTable, HerdTable, herd_of, on_scale
from farmiq.stack.home import Home
from farmiq.stack.secrets import Secrets
from farmiq.stack.station import BATCH_DAYS, batch_of, station_variables, write_station_file

TODAY = date(2026, 11, 16)


def station_on(folder: Path, day: date) -> Station:
    write_station_file(folder / "station-1" / "station.toml", day)
    return load_station(str(folder / "station-1" / "station.toml"))


def weights_on(station: Station, day: date) -> list[float]:
    """Of every animal of the herd, at noon."""
    assert isinstance(station.scale, HerdTable)
    herd = herd_of(station.scale)
    noon = datetime.combine(day, time(12), UTC)
    moments = range(0, int(herd.size * herd.period_seconds), int(herd.stay_seconds) // 2)
    seen = [on_scale(herd, noon + timedelta(seconds=seconds)) for seconds in moments]
    return list({animal.pig.seed: animal.weight_kg for animal in seen if animal is not None}.values())


def test_the_variables_are_all_that_the_agent_needs(tmp_path: Path) -> None:
    secrets = Secrets()
    given = station_variables(Home(tmp_path), secrets)
    elsewhere = {"MQTT_URL": "mqtt://127.0.0.1", "EDGE_MEDIA_STORE_URL": "http://127.0.0.1:5106"}
    settings = load(StationSettings, given | elsewhere)
    assert (settings.device_id, settings.http_token) == ("station-1", secrets.station_token)
    assert Path(settings.weighvision_queue_dir).is_relative_to(tmp_path / "devices")


def test_camera_and_scale_have_the_same_herd_and_sessions_name_its_batch(tmp_path: Path) -> None:
    station = station_on(tmp_path, TODAY)
    assert isinstance(station.camera, HerdCameraTable)
    assert isinstance(station.scale, HerdTable)
    assert herd_of(station.camera) == herd_of(station.scale)
    assert station.session.batch_id == f"batch-{station.scale.arrived_on}"


def test_the_file_is_the_same_on_every_day_of_a_batch_and_another_one_for_the_next(tmp_path: Path) -> None:
    first = batch_of(TODAY)
    assert {batch_of(first + timedelta(days=day)) for day in range(BATCH_DAYS)} == {first}
    assert batch_of(first + timedelta(days=BATCH_DAYS)) == first + timedelta(days=BATCH_DAYS)
    assert batch_of(first - timedelta(days=1)) == first - timedelta(days=BATCH_DAYS)
    assert station_on(tmp_path, first) == station_on(tmp_path, TODAY)


def test_the_batch_goes_before_its_animals_have_stopped_growing() -> None:
    assert BATCH_DAYS <= LAST_DAY - FIRST_DAY


def test_the_batch_weighs_more_on_every_day_and_never_what_the_model_does_not_know(tmp_path: Path) -> None:
    arrived_on = batch_of(TODAY)
    station = station_on(tmp_path, TODAY)
    days = [weights_on(station, arrived_on + timedelta(days=day)) for day in range(0, BATCH_DAYS, 7)]
    assert {len(weights) for weights in days} == {24}
    means = [fmean(weights) for weights in days]
    assert all(1.5 < later - earlier < 9 for earlier, later in pairwise(means)), "kilograms a week"
    assert means[0] == pytest.approx(28, abs=3)
    assert means[-1] == pytest.approx(98, abs=6)
    assert min(map(min, days)) > LIGHTEST_KG
    assert max(map(max, days)) < HEAVIEST_KG
