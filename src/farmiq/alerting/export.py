"""Writes the files in `deploy/` that come from the rules: `python -m farmiq.alerting.export [FOLDER]`.

`--runbook-url https://...` has each alert lead to its entry of a published runbook. With `--check` it writes nothing; exit code 1
and the names of the files that are not current.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from farmiq.alerting.dashboards import dashboard_files
from farmiq.alerting.prometheus_files import CONFIG_FILE, RULES_FILE, TESTS_FILE, config_file, rules_file, tests_file


def files(runbook: str | None = None) -> dict[str, str]:
    """Below the folder, with what they should hold."""
    prometheus = {RULES_FILE: rules_file(runbook), TESTS_FILE: tests_file(runbook), CONFIG_FILE: config_file()}
    made = {f"prometheus/{name}": text for name, text in prometheus.items()}
    return made | {f"grafana/{name}": text for name, text in dashboard_files().items()}


def stale(folder: Path) -> list[str]:
    return [name for name, text in files().items() if not _holds(folder / name, text)]


def write(folder: Path, runbook: str | None = None) -> None:
    for name, text in files(runbook).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m farmiq.alerting.export", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=Path("deploy"))
    parser.add_argument("--check", action="store_true", help="write nothing, and say what is not current")
    parser.add_argument("--runbook-url", help="where docs/operations/runbook.md is published; default: its path here")
    chosen = parser.parse_args(arguments)
    if not chosen.check:
        write(chosen.folder, chosen.runbook_url)
        return 0
    old = stale(chosen.folder)
    sys.stderr.writelines(f"{chosen.folder / name} is not current\n" for name in old)
    return 1 if old else 0


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_text(encoding="utf-8") == text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
