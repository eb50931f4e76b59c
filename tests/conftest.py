from pathlib import Path

import hypothesis
import pytest

from support.run_folder import RunFolder
from support.scheduling import in_turn, scope

pytest_plugins = [
    "support.mosquitto",
    "support.postgres",
    "support.databases",
    "support.rabbitmq",
    "support.debian_root",
    "support.s3",
    "support.stranger",
    "e2e.console_visit",
]

# How long an example takes says how busy the machine is, and nothing about the code.
hypothesis.settings.register_profile(
    "unhurried", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("unhurried")

_RUN = pytest.StashKey[RunFolder]()
_RUN_PATH = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    given = getattr(config, "workerinput", {}).get("farmiq_run_folder")
    if given:
        config.stash[_RUN_PATH] = Path(given)
        return
    config.stash[_RUN] = run = RunFolder()
    config.stash[_RUN_PATH] = run.path


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Every xdist worker uses the servers of the one run."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]  # xdist has no type for its node
    node.workerinput["farmiq_run_folder"] = str(config.stash[_RUN_PATH])  # type: ignore[attr-defined]  # as above


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    from xdist.scheduler import LoadFileScheduling  # type: ignore[import-untyped]  # it has no types

    config.option.loadscopereorder = False  # they are in the right order already
    scheduling = LoadFileScheduling(config, log)
    scheduling._split_scope = scope
    return scheduling


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items[:] = in_turn(items)


def pytest_unconfigure(config: pytest.Config) -> None:
    if run := config.stash.get(_RUN, None):
        run.close()


@pytest.fixture(scope="session")
def run_folder(request: pytest.FixtureRequest) -> Path:
    """Private folder of this test run. Processes started with `FARMIQ_STACK=<it>` end when the run ends, however it ends."""
    return request.config.stash[_RUN_PATH]
