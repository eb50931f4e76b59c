from typing import Annotated

from msgspec import Meta

from farmiq.kit.settings import Id, MqttUrl, Positive, Secret, Settings

GIB = 1 << 30


class StationSettings(Settings, frozen=True, kw_only=True):
    tenant_id: Id
    """Whose station this is."""
    farm_id: Id
    """Where it stands."""
    barn_id: Id
    """Where it stands."""
    device_id: Id
    """Who this station is. It is also its name at the broker."""
    station_id: Id | None = None
    """Its name in topics and pictures, as `farmiq device add --station-id` gave it. Default: its device id."""
    mqtt_url: MqttUrl
    edge_media_store_url: Annotated[str, Meta(pattern=r"^https?://[^/\s]+", description="http://host:port")]
    """Where upload URLs are asked for."""
    http_token: Secret
    """The device token for that."""
    weighvision_queue_dir: str
    """The folder of what waits for the edge, on a disk that keeps what was synced."""
    # A TOML file that describes camera, scale and sessions. Unset: a simulated station.
    weighvision_station: str | None = None
    weighvision_events_max: Annotated[int, Meta(ge=10, le=1_000_000)] = 10_000
    """At most so many events wait. Then the oldest are given up and declared."""
    weighvision_hours_max: Annotated[int, Meta(ge=1, le=24 * 365)] = 72
    """How long an event or a picture waits for an edge that is away, in hours that the station ran. Then it is given up and
    declared."""
    weighvision_pictures_bytes_max: Annotated[int, Meta(ge=1 << 20)] = 4 * GIB
    """At most so many bytes of pictures wait. Then the oldest are given up and declared."""
    weighvision_keep_free_bytes: Annotated[int, Meta(ge=0)] = GIB
    """Pictures are given up before the file system has less than this."""
    weighvision_keep_acked_hours: Annotated[int, Meta(ge=0, le=24 * 365)] = 24
    """What the edge has is kept for so long, in case its database is restored from a backup."""
    weighvision_upload_attempts_max: Annotated[int, Meta(ge=1, le=1000)] = 10
    """For a picture that is refused. An edge or an object store that takes no picture at all costs no attempt."""
    weighvision_http_seconds: Annotated[float, Meta(gt=0, le=600)] = 30.0
    """Until a request to the edge counts as unanswered."""
    weighvision_resend_seconds: Positive = 15
    """Until an event that was not acknowledged is sent again."""
    replay_msgs_per_sec: Annotated[float, Meta(gt=0, le=1000)] = 20.0
    """At most so many events of the backlog."""
    log_level: str = "INFO"
    """DEBUG, INFO, WARNING or ERROR."""

    @property
    def station(self) -> str:
        return self.station_id or self.device_id
