from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import HttpSettings, Port, Secret


class TelemetryServiceSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5202
    database_url: Secret
    amqp_url: Secret
    admin_token: Secret
    consume_batch_messages: Annotated[int, Meta(ge=1, le=2000)] = 200
    consume_batch_wait_ms: Annotated[int, Meta(ge=0, le=1000)] = 20
