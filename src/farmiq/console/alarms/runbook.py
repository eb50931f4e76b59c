"""The runbook. `runbook.md` is a link to the page of the documentation, and a file in an installed package: an edge box has to
show it without the internet."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt
from markupsafe import Markup

_HEADING = "## "


@cache
def entries() -> Mapping[str, Markup]:
    """By the name of the alert. HTML in the text is shown, not obeyed; of links only the words stay: they lead nowhere here."""
    text = (Path(__file__).parent / "runbook.md").read_text(encoding="utf-8")
    return {name: _rendered(body) for name, body in sections(text).items()}


def sections(text: str) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    lines: list[str] | None = None
    for line in text.splitlines():
        if line.startswith(_HEADING):
            lines = found.setdefault(line.removeprefix(_HEADING).strip(" `"), [])
        elif lines is not None:
            lines.append(line)
    return {name: "\n".join(body).strip() for name, body in found.items()}


def _rendered(body: str) -> Markup:
    markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
    for end in ("link_open", "link_close"):
        markdown.add_render_rule(end, _nothing)
    html = markdown.render(body)
    return Markup(html)  # noqa: S704 - the text is ours, and HTML in it is escaped


def _nothing(*_: object) -> str:
    return ""
