"""Where models come from: the package, a file, or the object store. The card lies beside the model, under `.json`."""

import asyncio
from importlib.resources import files
from pathlib import Path
from typing import Final

from farmiq.edge.vision_inference.card import CARD_BYTES_MAX, Model, ModelRefused, model_of
from farmiq.kit.errors import Transient
from farmiq.kit.s3 import ObjectMissing, ObjectStore, ObjectTooLarge, StoreAway, StoreRefused

PACKAGED: Final = "packaged"
S3_SCHEME: Final = "s3://"


class ModelAway(Transient):
    """The model's file can't be read just now. Pictures wait until it can."""

    code = "model_away"


class ModelMissing(ModelAway):
    """There is no model under that name. Pictures wait until there is."""

    code = "model_missing"


async def read_model(source: str, objects: ObjectStore, bytes_max: int) -> Model:
    """Raises `ModelAway` when it may be there later, `ModelRefused` when it is no model of ours."""
    if source.startswith(S3_SCHEME):
        return await _from_store(source, objects, bytes_max)
    path = packaged_model() if source == PACKAGED else Path(source)
    return await asyncio.to_thread(_from_file, path, source, bytes_max)


def packaged_model() -> Path:
    folder = Path(str(files("farmiq.edge.vision_inference"))) / "models"
    found = sorted(folder.glob("*.onnx"))
    if not found:
        raise ModelMissing("this installation has no model of its own: set INFERENCE_MODEL")
    return found[-1]


def _from_file(path: Path, source: str, bytes_max: int) -> Model:
    try:
        return model_of(_read(path, bytes_max), _read(path.with_suffix(".json"), CARD_BYTES_MAX), source)
    except FileNotFoundError as error:
        raise ModelMissing(f"there is no {error.filename}") from error
    except OSError as error:
        raise ModelAway(f"{error.filename}: {error.strerror}") from error


def _read(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        data = file.read(bytes_max + 1)
    if len(data) > bytes_max:
        raise ModelRefused(f"{path} has more than {bytes_max} bytes", code="model_too_large")
    return data


async def _from_store(source: str, objects: ObjectStore, bytes_max: int) -> Model:
    bucket, _, key = source.removeprefix(S3_SCHEME).partition("/")
    try:
        content = await objects.get(bucket, key, bytes_max=bytes_max)
        card = await objects.get(bucket, f"{key.removesuffix('.onnx')}.json", bytes_max=CARD_BYTES_MAX)
    except ObjectTooLarge as error:
        raise ModelRefused(str(error), code="model_too_large") from error
    except ObjectMissing as error:
        raise ModelMissing(f"there is no {source}, or no card beside it") from error
    except (StoreRefused, StoreAway) as error:
        raise ModelAway(f"{source}: {error}") from error
    return model_of(content, card, source)
