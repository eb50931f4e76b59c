"""What went wrong, as a page: what happened, why, and what to do."""

from http import HTTPStatus
from typing import Any

from litestar import Request, Response, get
from litestar.exceptions import HTTPException
from litestar.params import FromPath
from litestar.response import Redirect
from structlog.contextvars import get_contextvars

from farmiq.console.desk import Desk
from farmiq.console.guarding import NotLoggedIn, login_address, with_headers
from farmiq.console.neighbours import Away, Refused
from farmiq.kit import bad_request
from farmiq.kit.errors import Rejected
from farmiq.kit.http_server import ApiError
from farmiq.kit.logging import get_logger

log = get_logger(__name__)


def error_page(desk: Desk) -> Any:
    def answer(request: Request[Any, Any, Any], error: Exception) -> Response[Any]:
        is_part = "hx-request" in request.headers
        if isinstance(error, NotLoggedIn):
            address = login_address("/" if is_part else error.next_path)
            if is_part or "text/html" not in request.headers.get("accept", ""):
                return with_headers(Response("", status_code=401, headers={"hx-redirect": address}))
            return with_headers(Redirect(address, status_code=303))
        status, title, why = _describe(request, error)
        if status >= 500 and not isinstance(error, Away):
            log.error("page_failed", path=request.url.path, exc_info=error)
        trace_id = str(get_contextvars().get("trace_id", ""))
        return with_headers(
            desk.show_to_anybody(
                request, "error.html", status=status, title=title, why=why, trace_id=trace_id, is_part=is_part
            )
        )

    return answer


def _describe(request: Request[Any, Any, Any], error: Exception) -> tuple[int, str, str]:
    if isinstance(error, Away):
        return 503, f"{error.service} does not answer", error.reason
    if isinstance(error, Refused):
        return (error.status if error.status in {404, 409, 422} else 502), f"{error.service} refused", str(error)
    if isinstance(error, ApiError):
        return error.status, str(error), ""
    if isinstance(error, Rejected):
        return 422, str(error), ""
    if isinstance(error, HTTPException):
        why = bad_request.describe(request, error) if error.status_code == 400 else ""
        return error.status_code, HTTPStatus(error.status_code).phrase, why
    return 500, "Something failed here", "The trace id finds the log line: farmiq logs console"


@get("/{path:path}")
async def page_not_there(path: FromPath[str]) -> None:
    """Everything that nobody else answers."""
    raise ApiError(404, "not_found", f"There is no page {path[:100]}")
