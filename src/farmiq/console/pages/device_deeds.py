"""Letting a device in, giving it new secrets, taking it out. The secrets are shown on the page that answers, and nowhere else."""

from typing import Annotated, Any, Final

from litestar import post
from litestar.params import PathParameter
from litestar.response import Redirect
from msgspec import Meta

from farmiq.console.desk import AnyRequest, Desk, Page
from farmiq.console.fleet.answers import NewSecrets, RevokedDevice
from farmiq.console.fleet.asking import GATEWAY
from farmiq.console.forms import FORM, Form
from farmiq.contracts.ids import ID_PATTERN
from farmiq.kit.http_server import ApiError

KINDS: Final = ("node", "sensor", "weigh-station")
ADMIN: Final = {"role": "admin"}

Name = Annotated[str, Meta(max_length=64)]
DevicePath = Annotated[str, PathParameter(pattern=ID_PATTERN, max_length=64)]


class AddForm(Form, frozen=True):
    device_id: Name
    farm_id: Name
    barn_id: Name
    kind: Name = "node"


class ConfirmForm(Form, frozen=True):
    """`confirmation` is the device's name, typed."""

    confirmation: Name
    reason: Annotated[str, Meta(max_length=300)] = ""


def deed_routes(desk: Desk) -> list[Any]:
    @post("/devices/add", opt=ADMIN, status_code=201)
    async def add(request: AnyRequest, data: Annotated[AddForm, FORM]) -> Page:
        tenant = desk.tenant(request)
        device_id = data.device_id.strip()
        body = {
            "device_id": device_id,
            "tenant_id": tenant,
            "farm_id": data.farm_id.strip(),
            "barn_id": data.barn_id.strip(),
            "kind": data.kind.strip(),
        }
        told = {name: body[name] for name in ("farm_id", "barn_id", "kind")}
        async with desk.deed(request, "device.add", device_id, **told) as deed:
            secrets = await desk.neighbours.post(GATEWAY, "/api/v1/devices", body, NewSecrets)
            deed.outcome = "added"
        return desk.show(request, "device_secrets.html", status=201, secrets=secrets, deed="added")

    @post("/devices/{device_id:str}/rotate", opt=ADMIN, status_code=200)
    async def rotate(request: AnyRequest, device_id: DevicePath, data: Annotated[ConfirmForm, FORM]) -> Page:
        _require_confirmation(data, device_id)
        tenant = desk.tenant(request)
        async with desk.deed(request, "device.rotate", device_id, reason=data.reason) as deed:
            path = f"/api/v1/devices/{device_id}/rotate"
            secrets = await desk.neighbours.post(GATEWAY, path, {}, NewSecrets, tenant_id=tenant)
            deed.outcome = "new secrets"
        return desk.show(request, "device_secrets.html", secrets=secrets, deed="rotated")

    @post("/devices/{device_id:str}/revoke", opt=ADMIN, status_code=303)
    async def revoke(request: AnyRequest, device_id: DevicePath, data: Annotated[ConfirmForm, FORM]) -> Page | Redirect:
        _require_confirmation(data, device_id)
        if not data.reason.strip():
            raise ApiError(422, "reason_missing", "Say why: it stands in the audit trail")
        tenant = desk.tenant(request)
        async with desk.deed(request, "device.revoke", device_id, reason=data.reason) as deed:
            path = f"/api/v1/devices/{device_id}/revoke"
            revoked = await desk.neighbours.post(GATEWAY, path, {}, RevokedDevice, tenant_id=tenant)
            deed.outcome = "revoked"
        if revoked.for_the_broker:
            return desk.show(request, "device_revoked.html", revoked=revoked, status=200)
        return Redirect(f"/devices/{device_id}", status_code=303)

    return [add, rotate, revoke]


def _require_confirmation(data: ConfirmForm, device_id: str) -> None:
    if data.confirmation.strip() != device_id:
        raise ApiError(422, "not_confirmed", f"Type {device_id} to confirm; nothing was changed")
