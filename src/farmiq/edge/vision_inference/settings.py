from typing import Annotated

from msgspec import Meta

from farmiq.edge.vision_inference.engine import Limits
from farmiq.edge.vision_inference.sources import PACKAGED
from farmiq.kit.pictures import PIXELS_MAX
from farmiq.kit.settings import AdminToken, DatabaseUrl, HttpSettings, Port, Positive, Settings


class InferenceSettings(HttpSettings, frozen=True, kw_only=True):
    port: Port = 5107
    database_url: DatabaseUrl
    admin_token: AdminToken
    inference_model: Annotated[str, Meta(min_length=1, max_length=1024)] = PACKAGED
    """`packaged`, the path of an ONNX file, or s3://bucket/key. Its card lies beside it, under .json. Put to work once: what was
    activated since then stays at work."""
    inference_model_bytes_max: Annotated[int, Meta(ge=1024, le=512 * 1024 * 1024)] = 64 * 1024 * 1024
    """Of a model file. Larger ones are refused."""
    inference_threads: Annotated[int, Meta(ge=1, le=64)] = 1
    """Of the model, in its own process."""
    inference_at_once: Annotated[int, Meta(ge=1, le=64)] = 4
    """Pictures that are read at the same time. The model looks at one after the other. Each holds up to MEDIA_BYTES_MAX."""
    inference_attempts_max: Annotated[int, Meta(ge=1, le=100)] = 5
    """Until a picture that cannot be looked at is given up."""
    inference_memory_bytes_max: Annotated[int, Meta(ge=256 * 1024 * 1024)] = 1024 * 1024 * 1024
    """Of address space, for the model and one picture."""
    inference_cpu_seconds_max: Annotated[int, Meta(ge=1, le=3600)] = 10
    """For one picture."""
    inference_wall_seconds_max: Annotated[float, Meta(gt=0, le=3600)] = 60.0
    """For one picture, however busy the machine is."""
    media_bytes_max: Annotated[int, Meta(ge=1024, le=100 * 1024 * 1024)] = 10 * 1024 * 1024
    """As `edge-media-store` has it."""
    media_pixels_max: Annotated[int, Meta(ge=1, le=PIXELS_MAX)] = PIXELS_MAX
    """As `edge-media-store` has it."""

    @property
    def limits(self) -> Limits:
        return Limits(
            threads=self.inference_threads,
            memory_bytes_max=self.inference_memory_bytes_max,
            pixels_max=self.media_pixels_max,
            cpu_seconds_max=self.inference_cpu_seconds_max,
            wall_seconds_max=self.inference_wall_seconds_max,
        )


class InferenceRetentionSettings(Settings, frozen=True, kw_only=True):
    """Read by the jobs, in the service and in `farmiq jobs run`."""

    inference_job_retention_days: Positive = 30
    """Jobs that are done or were given up. A picture can be looked at again as long as it is there itself."""
    inference_result_retention_days: Positive = 365
    """Weights that the model gave."""
