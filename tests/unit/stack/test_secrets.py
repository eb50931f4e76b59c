import json
from pathlib import Path

import msgspec

from farmiq.stack.secrets import Secrets, load_or_create


def test_every_stack_has_credentials_of_its_own(tmp_path: Path) -> None:
    one, other = (msgspec.structs.asdict(load_or_create(tmp_path / name)) for name in ("one", "other"))
    assert not set(one.values()) & set(other.values())
    assert len(set(one.values())) == len(one)
    assert all(len(value) >= 32 for value in one.values())


def test_credentials_stay_the_same_and_only_their_owner_can_read_them(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    first = load_or_create(path)
    assert load_or_create(path) == first
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_credential_that_an_older_file_lacks_is_added_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(json.dumps({"admin_token": "from-before"}))
    first = load_or_create(path)
    assert first.admin_token == "from-before"
    assert load_or_create(path) == first


def test_the_text_form_shows_no_credential() -> None:
    secrets = Secrets()
    assert not any(value in repr(secrets) for value in msgspec.structs.asdict(secrets).values())
