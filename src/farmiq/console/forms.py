"""What the forms of the pages have in common."""

from typing import Annotated

from litestar.enums import RequestEncodingType
from litestar.params import Body
from msgspec import Meta, Struct

FORM = Body(media_type=RequestEncodingType.URL_ENCODED)
"""`data: Annotated[MyForm, FORM]` in a handler."""

Line = Annotated[str, Meta(max_length=300)]


class Form(Struct, frozen=True, kw_only=True):
    """Every form carries the token that shows that it was ours; it was checked before a handler sees the form."""

    csrf: Line = ""
