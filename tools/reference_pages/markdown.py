"""What the pages have in common: where they come from, and tables."""

from collections.abc import Iterable, Sequence

MADE_FROM = "<!-- Made by tools/reference.py. Change {source}, then run it again. -->"


def begin(title: str, source: str) -> list[str]:
    return [f"# {title}", "", MADE_FROM.format(source=source), ""]


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [
        _row(headings),
        "|" + "---|" * len(headings),
        *(_row([cell(text) for text in row]) for row in rows),
        "",
    ]


def cell(text: str) -> str:
    """One line, and no bar that would end the cell."""
    return " ".join(text.split()).replace("|", r"\|")


def code(text: str) -> str:
    return f"`{text}`" if text else ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"
