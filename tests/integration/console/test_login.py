import base64
import csv
import hashlib
import io
import sqlite3
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from farmiq.console.guarding import HEADERS
from farmiq.console.main import serve
from support.console_visitor import ADMIN_PASSWORD, OTHER_PASSWORD, ConsoleVisitor
from support.service_process import running, service_process


async def test_without_a_login_every_page_leads_to_the_login_and_back(console: ConsoleVisitor) -> None:
    status, _, headers = await console.get("/people?before=7")
    assert (status, headers["location"]) == (303, "/login?next=/people%3Fbefore%3D7")
    status, _, headers = await console.get("/people", **{"hx-request": "true"})
    assert (status, headers["hx-redirect"]) == (401, "/login?next=/")
    assert await console.log_in(password="wrong password!") == 401
    assert await console.log_in("nobody") == 401
    assert await console.log_in() == 303
    assert (await console.get("/people"))[0] == 200


async def test_whoever_logs_out_is_out(console: ConsoleVisitor) -> None:
    await console.log_in()
    [cookie] = [one.value for one in console.session.cookie_jar if one.key == "farmiq_session"]
    assert (await console.act("/logout"))[0] == 303
    status, _, _ = await console.get("/people", cookie=f"farmiq_session={cookie}")
    assert status == 303, "the old cookie is worth nothing"


async def test_the_session_cookie_is_for_this_site_and_not_for_scripts(console: ConsoleVisitor) -> None:
    _, _, headers = await console.post("/login", {"name": "admin", "password": ADMIN_PASSWORD})
    cookie = headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


async def test_guessing_is_slowed_down_and_said(console: ConsoleVisitor) -> None:
    answers = [await console.log_in(password=f"guess number {number}") for number in range(8)]
    assert answers[0] == 401
    assert answers[-1] == 429


async def test_an_invented_address_does_not_help_whoever_guesses(console: ConsoleVisitor) -> None:
    form = {"name": "admin", "password": "wrong password!"}
    answers = [await console.post("/login", form, **{"x-forwarded-for": f"198.51.100.{number}"}) for number in range(8)]
    assert answers[0][0] == 401
    assert answers[-1][0] == 429


@pytest.mark.parametrize("moment", ["before", "after"])
async def test_a_hash_of_the_first_release_is_replaced_at_the_next_login_whenever_the_console_dies(
    run_folder: Path, tmp_path: Path, moment: str
) -> None:
    folder = tmp_path / "state"
    environ = {"CONSOLE_STATE_DIR": str(folder), "CONSOLE_TENANTS": "north", "CONSOLE_PASSWORD": ADMIN_PASSWORD}
    async with running(serve, "console", environ):
        pass
    derived = hashlib.scrypt(ADMIN_PASSWORD.encode(), salt=b"salt of 16 bytes", n=16384, r=8, p=1, dklen=32)
    old = f"scrypt$16384$8${base64.b64encode(b'salt of 16 bytes').decode()}${base64.b64encode(derived).decode()}"
    _set_hash(folder, old)
    dies = ("farmiq.console.store:Store.renew_hash", moment, 1)
    with service_process("console", environ, run_folder, tmp_path / "console.log", dies) as process:
        async with aiohttp.ClientSession(process.url) as session:
            with pytest.raises(aiohttp.ClientError):
                await ConsoleVisitor(session).log_in()
        process.wait_for_death()
    assert (_hash(folder) == old) == (moment == "before")
    async with running(serve, "console", environ) as url, aiohttp.ClientSession(url) as session:
        assert await ConsoleVisitor(session).log_in() == 303
    assert _hash(folder).startswith("scrypt$32768$8$3$")


def _set_hash(folder: Path, password_hash: str) -> None:
    with closing(sqlite3.connect(folder / "console.db")) as file, file:
        file.execute("UPDATE people SET password_hash = ?", (password_hash,))


def _hash(folder: Path) -> str:
    with closing(sqlite3.connect(folder / "console.db")) as file:
        return str(file.execute("SELECT password_hash FROM people").fetchone()[0])


async def test_a_change_without_the_token_of_the_page_is_refused(console: ConsoleVisitor) -> None:
    await console.log_in()
    form = {"name": "eve", "role": "admin", "password": OTHER_PASSWORD}
    assert (await console.post("/people/add", form))[0] == 403
    assert (await console.post("/people/add", form | {"csrf": "x" * 32}))[0] == 403
    token = await console.csrf()
    assert (await console.post("/people/add", form | {"csrf": token}, **{"sec-fetch-site": "cross-site"}))[0] == 403
    assert "eve" not in (await console.get("/people"))[1]
    assert (await console.post("/people/add", form, **{"x-csrf-token": token}))[0] == 303


async def test_every_answer_carries_the_headers_that_a_browser_obeys(console: ConsoleVisitor) -> None:
    for path in ("/login", "/people", "/nothing-here", "/static/console.css"):
        _, _, headers = await console.get(path)
        assert {name: headers.get(name) for name in HEADERS} == dict(HEADERS), path
    await console.log_in()
    _, page, headers = await console.get("/people")
    assert "unsafe-inline" not in headers["content-security-policy"]
    assert " style=" not in page
    assert " onclick=" not in page


async def test_a_page_that_does_not_exist_says_so_as_a_page(console: ConsoleVisitor) -> None:
    await console.log_in()
    status, page, headers = await console.get("/people/nobody")
    assert status == 404
    assert headers["content-type"].startswith("text/html")
    assert "Back to the overview" in page


async def test_own_password(console: ConsoleVisitor) -> None:
    await console.log_in()
    assert (await console.act("/me/password", old=ADMIN_PASSWORD, new="short"))[0] == 422
    assert (await console.act("/me/password", old="not mine", new=OTHER_PASSWORD))[0] == 422
    assert (await console.act("/me/password", old=ADMIN_PASSWORD, new=OTHER_PASSWORD))[0] == 303
    assert (await console.get("/people"))[0] == 303, "everybody who was logged in with the old one is out"
    assert await console.log_in() == 401
    assert await console.log_in(password=OTHER_PASSWORD) == 303


async def test_colours_are_remembered_and_only_known_ones_taken(console: ConsoleVisitor) -> None:
    await console.log_in()
    status, _, headers = await console.act("/me/theme", value="dark", next="//evil.example")
    assert (status, headers["location"]) == (303, "/")
    assert 'data-theme="dark"' in (await console.get("/people"))[1]
    assert (await console.act("/me/theme", value='"><script>'))[0] == 422


@pytest.mark.parametrize("given", [None, ADMIN_PASSWORD])
async def test_a_first_start_makes_one_person_and_later_starts_change_nothing(
    tmp_path: Path, given: str | None
) -> None:
    folder = tmp_path / "state"
    environ = {"CONSOLE_STATE_DIR": str(folder), "CONSOLE_TENANTS": "north"}
    if given:
        environ["CONSOLE_PASSWORD"] = given
    for _ in range(2):
        async with running(serve, "console", environ):
            pass
    first = folder / "first-password"
    if given:
        assert not first.exists()
        return
    assert first.stat().st_mode & 0o077 == 0
    assert len(first.read_text().strip()) >= 16


async def test_logins_and_what_was_refused_are_in_the_audit_trail(console: ConsoleVisitor) -> None:
    await console.log_in(password="wrong password!")
    await console.log_in("my-secret-typed-into-the-wrong-field")
    await console.log_in()
    await console.act("/logout")
    await console.log_in()
    _, trail, _ = await console.get("/people/audit.csv")
    rows = [(row["name"], row["action"], row["outcome"]) for row in csv.DictReader(io.StringIO(trail))]
    assert rows == [
        ("admin", "login", "done"),
        ("admin", "logout", "done"),
        ("admin", "login", "done"),
        ("(somebody unknown)", "login", "refused"),
        ("admin", "login", "refused"),
        ("console", "person.add", "done, at the first start"),
    ]
    assert "my-secret" not in trail
