import pytest

from farmiq.console.guarding import local_path
from farmiq.console.passwords import hash_password, is_password, new_password
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
