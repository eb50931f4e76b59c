"""A console that nobody has used yet lets one person in, who lets the others in."""

import os
from pathlib import Path
from typing import Final

from farmiq.console.passwords import hash_password, new_password
from farmiq.console.settings import ConsoleSettings
from farmiq.console.store import Store
from farmiq.kit.clock import Clock
from farmiq.kit.logging import get_logger

log = get_logger(__name__)

NAME: Final = "admin"
PASSWORD_FILE: Final = "first-password"  # noqa: S105 - the name of a file


def let_first_person_in(store: Store, settings: ConsoleSettings, clock: Clock) -> None:
    """The password is known before the person: killed in between, the next start goes on with the same one."""
    if not store.is_empty():
        return
    password = settings.console_password or _password_in(Path(settings.console_state_dir) / PASSWORD_FILE)
    store.add_person(NAME, "admin", (), hash_password(password), clock.now())
    store.note_deed("console", None, "person.add", NAME, {"role": "admin"}, "done, at the first start", clock.now())
    log.info("first_person_added", name=NAME)


def _password_in(path: Path) -> str:
    if path.exists() and (known := path.read_text(encoding="utf-8").strip()):
        return known
    password = new_password()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{password}\n")
        file.flush()
        os.fsync(file.fileno())
    log.info("first_password_written", path=str(path))
    return password
