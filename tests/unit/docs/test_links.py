"""Every link in the docs leads somewhere, and the navigation has every page."""

from pathlib import Path
from typing import Any

import pytest
import yaml  # type: ignore[import-untyped]  # PyYAML comes without types

from support.documents import DOCS, ROOT, anchors, broken_links, links, pages


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_the_page_leads_to_a_file_and_a_heading(page: Path) -> None:
    assert broken_links(page) == []


def test_the_pages_have_links_at_all() -> None:
    assert sum(len(links(page.read_text(encoding="utf-8"))) for page in pages()) > 50


def test_links_that_lead_nowhere_are_found(tmp_path: Path) -> None:
    page = ROOT / "docs" / "index.md"
    text = "[a](start.md) [b](gone.md) [c](../README.md#no-such) [d](#words) [e](#nothing) `[f](in-code.md)`\n```\n[g](x.md)\n```"
    found = tmp_path / "page.md"
    found.write_text(text, encoding="utf-8")
    assert links(text) == ["start.md", "gone.md", "../README.md#no-such", "#words", "#nothing"]
    assert broken_links(found) == links(text)
    assert "words" in anchors(page.read_text(encoding="utf-8"))


def test_anchors_are_those_of_github() -> None:
    text = "# `farmiq up`\n## What it's for, and (why)\n## Twice\n## Twice\n```\n# not a heading\n```\n"
    assert anchors(text) == {"farmiq-up", "what-its-for-and-why", "twice", "twice-1"}


def test_the_navigation_has_every_page_of_docs() -> None:
    # The theme's own options may name Python objects, which are none of ours here.
    settings: dict[str, Any] = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    named = set(_pages_of(settings["nav"])) - {"architecture.md", "contributing.md", "changelog.md"}
    assert named == {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def _pages_of(nav: Any) -> list[str]:
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in _pages_of(part)]
