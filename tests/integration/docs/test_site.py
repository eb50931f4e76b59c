"""docs/ as a site: it builds without a warning, and needs no other host, as its files say and as a browser sees it."""

import contextlib
import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import TimeoutError as NotYet
from playwright.sync_api import sync_playwright

from support.documents import ROOT
from support.waiting import wait_for

CHROMIUM = "/usr/bin/chromium"


@pytest.fixture(scope="module")
def site(run_folder: Path) -> Path:
    folder = run_folder / "site"
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


class References(HTMLParser):
    """Everything that a page would load or lead to."""

    NAMES = ("src", "href", "srcset", "action", "poster", "data")

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.classes: set[str] = set()

    def handle_starttag(self, _tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attributes if name in self.NAMES and value]
        self.classes |= {word for name, value in attributes if name == "class" and value for word in value.split()}


def references(page: Path) -> References:
    parser = References()
    parser.feed(page.read_text(encoding="utf-8"))
    return parser


def test_no_page_names_another_host(site: Path) -> None:
    html = sorted(site.rglob("*.html"))
    assert len(html) > 30
    elsewhere = {
        (page.relative_to(site).as_posix(), target)
        for page in html
        for target in references(page).found
        if urlsplit(target).netloc
    }
    assert elsewhere == set()


def test_no_style_names_another_host(site: Path) -> None:
    styles = sorted(site.rglob("*.css"))
    assert styles
    assert [
        path.name for path in styles if re.search(r"url\(['\"]?(?:https?:)?//|@import", path.read_text("utf-8"))
    ] == []


def test_no_page_has_what_the_theme_would_fetch_a_script_for(site: Path) -> None:
    """Material loads Mermaid from elsewhere when a page has a diagram of that kind."""
    assert [page.name for page in site.rglob("*.html") if "mermaid" in references(page).classes] == []


def test_reference_documents_are_part_of_the_site(site: Path) -> None:
    wanted = [
        "reference/asyncapi.yaml",
        "reference/api/cloud-ingestion.json",
        "guides/esp32-sensor.ino",
        "architecture.html",
    ]
    assert [name for name in wanted if not (site / name).is_file()] == []


@pytest.fixture
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Nobody reads it."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.skipif(not Path(CHROMIUM).exists(), reason="chromium is not installed: apt-get install chromium")
def test_a_browser_asks_nobody_else_also_when_it_searches(address: str) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-background-networking"]
        )
        page = browser.new_page()
        asked, wrong = set[str](), list[str]()
        page.on("request", lambda request: asked.add(urlsplit(request.url).netloc))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        for name in ("index.html", "guides/connect-a-device.html", "reference/settings.html"):
            page.goto(f"{address}/{name}", wait_until="networkidle")
            assert page.locator("h1").is_visible()
        search, found = page.locator("input.md-search__input"), page.locator(".md-search-result__item").first

        def finds() -> bool:
            """What was typed before the page had read its index is not looked for."""
            search.fill("")
            search.press_sequentially("spool")
            with contextlib.suppress(NotYet):
                found.wait_for(timeout=5_000)
            return found.is_visible()

        assert wait_for(finds, 60, "the search to find a page")
        browser.close()
    assert (asked, wrong) == ({urlsplit(address).netloc}, [])
