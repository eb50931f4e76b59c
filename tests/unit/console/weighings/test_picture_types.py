"""What of a picture's bytes a browser is given."""

import pytest

from farmiq.console.weighings.picture_files import NotShown, shown
from farmiq.kit.http_client import Answer


@pytest.mark.parametrize("kind", ["image/jpeg", "image/png", "image/webp", "Image/JPEG; charset=x"])
def test_a_picture_is_given_as_what_it_is(kind: str) -> None:
    found = shown(Answer(200, {"content-type": kind}, b"bytes"))
    assert (found.content_type, found.body) == (kind.partition(";")[0].lower(), b"bytes")


@pytest.mark.parametrize("kind", ["image/svg+xml", "text/html", "application/octet-stream", "", "image/jpeg-not"])
def test_nothing_that_could_run_is_given(kind: str) -> None:
    with pytest.raises(NotShown):
        shown(Answer(200, {"content-type": kind} if kind else {}, b"<script>"))
