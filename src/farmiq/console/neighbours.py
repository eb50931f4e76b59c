"""The services of the farm, asked over their HTTP APIs: bounded in time and size, each with its tier's token."""

from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import aiohttp
import msgspec

from farmiq.kit.errors import Transient
from farmiq.kit.http_client import Answer, AnswerTooLarge, NeighbourAway, call

T = TypeVar("T")

ANSWER_BYTES_MAX: Final = 4 << 20
PICTURE_BYTES_MAX: Final = 16 << 20

Values = Mapping[str, Any]


class Away(Transient):
    """A service can't be asked just now. What it would have told is not known, which is not the same as nothing."""

    code = "service_away"

    def __init__(self, service: str, reason: str) -> None:
        super().__init__(f"{service} does not answer: {reason}")
        self.service = service
        self.reason = reason


class Refused(Exception):
    """A service answered that it will not do this."""

    def __init__(self, service: str, status: int, code: str, message: str) -> None:
        super().__init__(message or f"{service} answered {status}")
        self.service = service
        self.status = status
        self.code = code


class Neighbours:
    def __init__(
        self,
        session: aiohttp.ClientSession,
        addresses: Mapping[str, str],
        tokens: Mapping[str, str | None],
        answer_bytes_max: int = ANSWER_BYTES_MAX,
    ) -> None:
        """`tokens` by tier."""
        self._session = session
        self._addresses = addresses
        self._tokens = tokens
        self._answer_bytes_max = answer_bytes_max

    @property
    def names(self) -> tuple[str, ...]:
        """Those that this console is told of."""
        return tuple(self._addresses)

    def knows(self, service: str) -> bool:
        return service in self._addresses

    def url_of(self, service: str) -> str:
        try:
            return self._addresses[service]
        except KeyError as error:
            variable = f"{service.replace('-', '_').upper()}_URL"
            raise Away(service, f"its address is not known here (set {variable})") from error

    async def get(self, service: str, path: str, kind: type[T], **parameters: Any) -> T:
        """The answer as `kind`, whose unknown fields are passed over. Parameters that are None are left out."""
        answer = await self.ask(service, "GET", path, parameters=parameters)
        return _decode(service, answer, kind)

    async def post(self, service: str, path: str, body: object, kind: type[T], **parameters: Any) -> T:
        answer = await self.ask(service, "POST", path, body=msgspec.json.encode(body), parameters=parameters)
        return _decode(service, answer, kind)

    async def ask(
        self,
        service: str,
        method: str,
        path: str,
        *,
        body: bytes | None = None,
        parameters: Values | None = None,
        answer_bytes_max: int | None = None,
    ) -> Answer:
        """A good answer as it came."""
        url = self.url_of(service) + path + _query(parameters or {})
        headers = {"content-type": "application/json"} if body is not None else {}
        if token := self._tokens.get(service.partition("-")[0]):
            headers["authorization"] = f"Bearer {token}"
        try:
            answer = await call(
                self._session,
                method,
                url,
                body=body,
                headers=headers,
                answer_bytes_max=answer_bytes_max or self._answer_bytes_max,
            )
        except (NeighbourAway, AnswerTooLarge) as error:
            raise Away(service, str(error)) from error
        if answer.status == 503:
            raise Away(service, _said(answer)[1] or "it is not ready")
        if answer.status >= 400:
            raise Refused(service, answer.status, *_said(answer))
        return answer

    async def readiness(self, service: str) -> Answer:
        """Its answer to `GET /api/ready`, also when that is that it is not."""
        try:
            return await call(self._session, "GET", f"{self.url_of(service)}/api/ready")
        except (NeighbourAway, AnswerTooLarge) as error:
            raise Away(service, str(error)) from error

    async def picture(self, url: str) -> Answer:
        """The bytes behind a presigned address. It carries its own right to read, so no token goes along."""
        try:
            answer = await call(self._session, "GET", url, answer_bytes_max=PICTURE_BYTES_MAX)
        except (NeighbourAway, AnswerTooLarge) as error:
            raise Away("object store", str(error)) from error
        if answer.status != 200:
            raise Refused("object store", answer.status, "picture_refused", "The object store did not give the picture")
        return answer


def _query(parameters: Values) -> str:
    pairs = {name: value for name, value in parameters.items() if value is not None}
    return f"?{urlencode(pairs, doseq=True)}" if pairs else ""


def _decode(service: str, answer: Answer, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Away(service, f"its answer is not what it should be ({error})") from error


def _said(answer: Answer) -> tuple[str, str]:
    try:
        error = msgspec.json.decode(answer.body, type=dict[str, dict[str, Any]])["error"]
        return str(error.get("code", "")), str(error.get("message", ""))[:500]
    except (msgspec.DecodeError, KeyError, UnicodeDecodeError):
        return "", ""
