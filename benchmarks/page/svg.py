"""A picture of lines, boxes and words. It brings its own ground, so that it can be read on a light and on a dark page alike."""

from html import escape
from typing import Final

_STYLE: Final = """
.ground { fill: #ffffff } .word { fill: #1f2933 } .quiet { fill: #52606d } .rule { stroke: #cbd2d9 } .mark { stroke: #1f2933 }
.good { fill: #0f766e } .bad { fill: #b4232c } .ours { fill: #0f766e; stroke: #0f766e } .rest { fill: #e4e7eb }
text { font: 13px system-ui, sans-serif } .small { font-size: 11px } .heading { font-weight: 600 }
@media (prefers-color-scheme: dark) {
.ground { fill: #1c2128 } .word { fill: #e6edf3 } .quiet { fill: #9aa7b4 } .rule { stroke: #3d4752 } .mark { stroke: #e6edf3 }
.good { fill: #2dd4bf } .bad { fill: #ff7b80 } .ours { fill: #2dd4bf; stroke: #2dd4bf } .rest { fill: #3d4752 }
}
"""


class Drawing:
    def __init__(self, width: int, height: int, title: str) -> None:
        self._width, self._height, self._title = width, height, title
        self._parts: list[str] = []

    def text(self, x: float, y: float, words: str, style: str = "word", anchor: str = "start") -> None:
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" class="{style}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def box(self, x: float, y: float, width: float, height: float, style: str) -> None:
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{height:.1f}" rx="2" class="{style}"/>'
        )

    def line(self, x1: float, y1: float, x2: float, y2: float, style: str = "rule", width: float = 1.0) -> None:
        self._parts.append(
            f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{style}" stroke-width="{width:g}"/>'
        )

    def dot(self, x: float, y: float, style: str) -> None:
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" class="{style}"/>')

    def as_text(self) -> str:
        size = f'width="{self._width}" height="{self._height}" viewBox="0 0 {self._width} {self._height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self._title)}">',
                f"<title>{escape(self._title)}</title>",
                f"<style>{_STYLE}</style>",
                f'<rect width="{self._width}" height="{self._height}" rx="6" class="ground"/>',
                *self._parts,
                "</svg>\n",
            ]
        )
