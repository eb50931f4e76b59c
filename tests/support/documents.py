"""What is written in the docs, as a test needs it: programs to run, headings, links."""

import re
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"

_FENCE: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def block(page: str, language: str, beginning: str) -> str:
    """The one fenced block of a page, of that language, that begins like this."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = [code for word, code in _FENCE.findall(text) if word == language and code.startswith(beginning)]
    assert len(found) == 1, f"{page} has {len(found)} {language} blocks that begin with {beginning!r}"
    return str(found[0])


# --- Links ---------------------------------------------------------------------------------------------------------------------

_ANY_FENCE: Final = re.compile(r"^(```|~~~).*?^\1$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"`[^`\n]*`")
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING: Final = re.compile(r"^#{1,6} +(.+?) *$", re.MULTILINE)


def pages() -> list[Path]:
    """Everything that a person reads: docs/ and the pages beside it."""
    return [*sorted(DOCS.rglob("*.md")), *(ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"))]


def links(text: str) -> list[str]:
    """Targets, as written. What stands in code is not a link."""
    return _LINK.findall(_CODE.sub("", _ANY_FENCE.sub("", text)))


def anchors(text: str) -> set[str]:
    """As GitHub makes them of headings, and MkDocs of the same ones: small letters, hyphens for spaces, nothing else."""
    made: set[str] = set()
    for heading in _HEADING.findall(_ANY_FENCE.sub("", text)):
        name = re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")
        made.add(next(one for one in (name, *(f"{name}-{number}" for number in range(1, 100))) if one not in made))
    return made


def broken_links(page: Path) -> list[str]:
    """Links of a page to files that are not there, or to headings that those do not have."""
    return [target for target in links(page.read_text(encoding="utf-8")) if not _leads_somewhere(page, target)]


def _leads_somewhere(page: Path, target: str) -> bool:
    if "://" in target or target.startswith("mailto:"):
        return True
    name, _, anchor = target.partition("#")
    path = (page.parent / name).resolve() if name else page
    if not path.exists() or not path.is_relative_to(ROOT):
        return False
    return not anchor or (path.suffix == ".md" and anchor in anchors(path.read_text(encoding="utf-8")))
