from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import HttpSettings, Port, Secret


class GatewaySettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5103
    database_url: Secret
    mqtt_url: Secret
    admin_token: Secret
    ingress_batch_messages: Annotated[int, Meta(ge=1, le=5000)] = 500
    ingress_batch_wait_ms: Annotated[int, Meta(ge=0, le=1000)] = 20
    ingress_ack_interval_ms: Annotated[int, Meta(ge=0, le=5000)] = 100
