"""The generated pages of docs/reference/ are those that the code makes today."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from farmiq.contracts.services import SERVICES
from support.documents import DOCS, ROOT

API = DOCS / "reference" / "api"


def test_every_generated_page_is_current() -> None:
    command = [sys.executable, "tools/reference.py", "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[:5000]}{done.stderr[-5000:]}"


def test_every_setting_has_a_meaning() -> None:
    """A row ends with it. Where the code says nothing beside a field, the page would have nothing to say."""
    rows = [
        line for line in (DOCS / "reference" / "settings.md").read_text("utf-8").splitlines() if line.startswith("| `")
    ]
    assert len(rows) > 150
    assert [row for row in rows if row.endswith("|  |")] == []


def test_every_metric_has_a_meaning_and_a_name_in_small_letters() -> None:
    rows = [
        line for line in (DOCS / "reference" / "metrics.md").read_text("utf-8").splitlines() if line.startswith("| `")
    ]
    assert len(rows) > 60
    assert [row for row in rows if row.endswith("|  |")] == []
    assert [
        row for row in rows if re.match(r"\| `[a-z][a-z0-9_]*` \| (counter|gauge|histogram|info) \|", row) is None
    ] == []


@pytest.mark.parametrize("path", sorted(API.glob("*.json")), ids=lambda path: path.stem)
def test_an_openapi_document_is_of_a_service_and_whole(path: Path) -> None:
    document: dict[str, Any] = json.loads(path.read_text("utf-8"))
    assert path.stem in {service.name for service in SERVICES}
    assert document["openapi"].startswith("3.1")
    assert {"/api/health", "/api/ready", "/metrics"} < document["paths"].keys()
    assert _missing_references(document) == []
    operations = [
        one for item in document["paths"].values() for name, one in item.items() if name in {"get", "post", "put"}
    ]
    assert all(one.get("operationId") and one.get("responses") for one in operations)


def _missing_references(document: dict[str, Any]) -> list[str]:
    return [reference for reference in _references(document) if not _resolves(document, reference)]


def _references(part: Any) -> list[str]:
    if isinstance(part, dict):
        own = [part["$ref"]] if isinstance(part.get("$ref"), str) else []
        return own + [found for value in part.values() for found in _references(value)]
    return [found for value in part for found in _references(value)] if isinstance(part, list) else []


def _resolves(document: Any, reference: str) -> bool:
    for word in reference.removeprefix("#/").split("/"):
        if not isinstance(document, dict) or word not in document:
            return False
        document = document[word]
    return True
