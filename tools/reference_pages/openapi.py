"""docs/reference/api/*.json: each service's OpenAPI document as it serves it; docs/reference/http.md: a list of all routes."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from reference_pages.markdown import begin, code, table
from reference_pages.services import Offer

METHODS = ("get", "post", "put", "patch", "delete")
STANDARD = {"/api/health", "/api/ready", "/metrics"}

PREFACE = """\
Each service describes its routes in an OpenAPI 3.1 document: at `/api-docs/openapi.json` of a running service, with a page to try
them at `/api-docs`, which needs no internet; and here as a file.

Every service also answers these:

| Route | |
|---|---|
| `GET /api/health` | liveness: the process answers. Depends on nothing else |
| `GET /api/ready` | readiness: 200, or 503 with what is missing, by name |
| `GET /metrics` | [metrics](metrics.md) |
| `GET /api-docs`, `GET /api-docs/openapi.json` | this, of one service |

Errors have one shape everywhere: `{"error": {"code": "...", "message": "...", "traceId": "..."}}`. 429 and 503 carry
`Retry-After`. `x-request-id` and `x-trace-id` are accepted, made when they are missing, logged, and sent back.
"""


def documents(services: Sequence[Offer]) -> dict[str, str]:
    return {
        f"{offer.service.name}.json": json.dumps(offer.openapi, indent=2, ensure_ascii=False, sort_keys=True) + "\n"
        for offer in services
        if any(_routes(offer.openapi))
    }


def page(services: Sequence[Offer]) -> str:
    lines = [*begin("HTTP routes", "the routes of the service"), PREFACE]
    for offer in services:
        if rows := list(_routes(offer.openapi)):
            name = offer.service.name
            lines += [f"## {name}", "", f"Port {offer.service.port}. [OpenAPI document](api/{name}.json)", ""]
            lines += table(("Route", "What it does"), rows)
    return "\n".join(lines)


def _routes(document: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for path, item in sorted(document.get("paths", {}).items()):
        if path in STANDARD:
            continue
        for method in METHODS:
            if operation := item.get(method):
                yield code(f"{method.upper()} {path}"), _first_sentence(operation)


def _first_sentence(operation: dict[str, Any]) -> str:
    said = str(operation.get("description") or operation.get("summary") or "")
    return said.split("\n\n", maxsplit=1)[0]
