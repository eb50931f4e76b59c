import base64
import hashlib

import pytest

from farmiq.console.guarding import local_path
from farmiq.console.passwords import hash_password, is_outdated, is_password, new_password
from farmiq.console.roles import ROLES, may


@pytest.mark.parametrize("path", ["/", "/devices?after=x", "/sessions/1#top"])
def test_a_path_of_ours_is_gone_to_after_the_login(path: str) -> None:
    assert local_path(path) == path


@pytest.mark.parametrize(
    "path",
    ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "", "javascript:alert(1)", "/a\\..\\b"],
)
def test_nobody_is_sent_to_another_site_after_the_login(path: str) -> None:
    assert local_path(path) == "/"


def test_a_role_may_do_what_the_roles_below_it_may() -> None:
    table = {(role, needed): may(role, needed) for role in ROLES for needed in ROLES}
    assert [pair for pair, allowed in table.items() if not allowed] == [
        ("viewer", "operator"), ("viewer", "admin"), ("operator", "admin"),
    ]  # fmt: skip


def test_a_password_is_recognised_and_its_hash_does_not_show_it() -> None:
    password = new_password()
    kept = hash_password(password)
    assert is_password(password, kept)
    assert not is_password(password + "x", kept)
    assert not is_password("", kept)
    assert password not in kept
    assert hash_password(password) != kept, "the same password has another hash each time"


OLD_HASH = "scrypt$16384$8$c2FsdCBvZiAxNiBieXRlcw==$%s"


def test_a_hash_of_the_first_release_is_recognised_and_counts_as_outdated() -> None:
    derived = hashlib.scrypt(b"correct horse battery", salt=b"salt of 16 bytes", n=16384, r=8, p=1, dklen=32)
    old = OLD_HASH % base64.b64encode(derived).decode()
    assert is_password("correct horse battery", old)
    assert not is_password("correct horse", old)
    assert is_outdated(old)
    assert not is_outdated(hash_password("correct horse battery"))
