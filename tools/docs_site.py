"""A hook of MkDocs: the pages that lie beside docs/ are part of the site, and links to them lead there."""

import os
import re
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
BESIDE = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}

_LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(?P<anchor>#[^)\s]*)?\)")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    for name, page in BESIDE.items():
        files.append(File.generated(config, page, content=(ROOT / name).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    beside = {site: name for name, site in BESIDE.items()}.get(page.file.src_uri)
    here = PurePosixPath(beside or f"docs/{page.file.src_uri}").parent
    there = PurePosixPath(page.file.src_uri).parent

    def moved(link: re.Match[str]) -> str:
        target = place_in_site(link["target"], here)
        if target is None:
            return link[0]
        return f"]({os.path.relpath(target, there)}{link['anchor'] or ''})"

    return _LINK.sub(moved, markdown)


def place_in_site(target: str, here: PurePosixPath) -> str | None:
    """Where a file that is named from a folder of the repository lies in the site. None: somewhere else, or not a file."""
    if "://" in target or target.startswith(("/", "mailto:")):
        return None
    path = os.path.normpath(here / target)
    if path in BESIDE:
        return BESIDE[path]
    return path.removeprefix("docs/") if path.startswith("docs/") else None
