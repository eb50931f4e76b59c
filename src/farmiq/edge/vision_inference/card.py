"""The card beside a model: which version it is, which file, what goes in and what comes out. `training/` writes it."""

import hashlib
import hmac
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct

from farmiq.contracts.ids import Sha256
from farmiq.kit.errors import FarmiqError

CARD_BYTES_MAX: Final = 256 * 1024
NEEDED_OUTPUTS: Final = ("weight_kg", "confidence")
SIZE_OUTPUT: Final = "predicted_size"
"""Of models that also name a size, as text. Without it, results have none."""

ModelVersion = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._+-]{0,127}$(?!\n)", max_length=128)]
Edge = Annotated[int, Meta(ge=8, le=4096)]


class ModelRefused(FarmiqError):
    """The model is not put to work: its card, its checksum or its answers are wrong. The model before it goes on."""

    code = "model_refused"


class Input(Struct, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1, max_length=128)]
    type: Literal["uint8"]
    layout: Literal["NHWC"]
    colour: Literal["RGB"]
    width: Edge
    height: Edge


class ModelCard(Struct, frozen=True, kw_only=True):
    """What this service reads of it. The rest is for people, and is kept with it."""

    card_version: Literal[1]
    model_version: ModelVersion
    sha256: Sha256
    input: Input
    outputs: Annotated[dict[str, Any], Meta(max_length=64)]

    @property
    def asked_outputs(self) -> list[str]:
        return [*NEEDED_OUTPUTS, *([SIZE_OUTPUT] if SIZE_OUTPUT in self.outputs else [])]


class Model(Struct, frozen=True):
    """A file that is the one its card speaks of. `stated` is the whole card."""

    card: ModelCard
    stated: msgspec.Raw
    content: bytes
    source: str

    @property
    def version(self) -> str:
        return self.card.model_version

    @property
    def sha256(self) -> str:
        return self.card.sha256.lower()


def model_of(content: bytes, card: bytes, source: str) -> Model:
    """Raises `ModelRefused` unless the card can be read and the file is its file."""
    try:
        read = msgspec.json.decode(card, type=ModelCard)
    except msgspec.MsgspecError as error:
        raise ModelRefused(f"the card of {source} can't be used: {error}", code="bad_card") from error
    if missing := [name for name in NEEDED_OUTPUTS if name not in read.outputs]:
        raise ModelRefused(f"the model of {source} has no output {missing[0]}", code="bad_card")
    if not hmac.compare_digest(hashlib.sha256(content).hexdigest(), read.sha256.lower()):
        raise ModelRefused(f"{source} is not the file that its card speaks of: other SHA-256", code="other_sha256")
    return Model(read, msgspec.Raw(card), content, source)
