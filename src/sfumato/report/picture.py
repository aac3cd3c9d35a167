"""A picture of released figures: drawn at any width, as a part of a page or to stand alone.

Decision 0233.
"""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import OutputError
from sfumato.filesystem import whole
from sfumato.report.drawing import SMALL, TEXT, Drawing, escaped
from sfumato.report.palette import picture_style
from sfumato.report.text_width import wrapped

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.report.blocks import PageTable

_ENDING = ".svg"
_LONE_WIDTH = 640
_MARGIN = 16
_LINE = 19


@dataclass(frozen=True)
class Picture:
    """A drawing, said in words as well and with its figures as a table.

    `note` says what a reader of the picture must know besides, such as what was put together.
    In a notebook it shows itself; `svg` is the same as a file of its own, light or dark by itself.
    """

    label: str
    table: PageTable = field(repr=False)
    paint: Callable[[Drawing], None] = field(repr=False, compare=False)
    note: str = ""

    def draw(self, width: float) -> str:
        """The drawing as a part of a page, which gives it its style and its words."""
        drawing = Drawing(width)
        self.paint(drawing)
        return drawing.svg('aria-hidden="true" focusable="false"')

    @property
    def svg(self) -> str:
        """The drawing as a whole SVG file, with its own style, title and description."""
        inner = Drawing(_LONE_WIDTH)
        self.paint(inner)
        outer = Drawing(_LONE_WIDTH + 2 * _MARGIN)
        above, below = (
            wrapped(words, _LONE_WIDTH, size)
            for words, size in ((self.label, TEXT), (self.note, SMALL))
        )
        begin = _MARGIN + _LINE * len(above) + 4
        outer.height = begin + inner.height + _LINE * len(below) + _MARGIN
        outer.rectangle(0, 0, outer.width, outer.height, "paper")
        for place, words in enumerate(above):
            outer.text((_MARGIN, _MARGIN + _LINE * place + 10), words, "name")
        outer.add(inner.svg(f'x="{_MARGIN}" y="{begin}"'))
        for place, words in enumerate(below):
            outer.text((_MARGIN, begin + inner.height + _LINE * place + 14), words)
        about = f"<title>{escaped(self.label)}</title><desc>{escaped(self._described)}</desc>"
        style = f"<style>{picture_style()}</style>"
        return outer.svg('xmlns="http://www.w3.org/2000/svg" role="img"', about + style)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the picture as an SVG file."""
        target = arguments.path(path, "path")
        if target.suffix.lower() != _ENDING:
            raise OutputError(
                "output_format_unknown",
                f"Cannot tell the format of {quoted(str(target))}. Its name must end in {_ENDING}.",
            )
        with whole(target, overwrite=overwrite) as temporary:
            temporary.write_text(self.svg + "\n", encoding="utf-8")

    def _repr_html_(self) -> str:
        # As an image it keeps its style to itself, whatever notebook it is shown in.
        data = b64encode(self.svg.encode()).decode()
        return f'<img alt="{escaped(self.label)}" src="data:image/svg+xml;base64,{data}">'

    @property
    def _described(self) -> str:
        rows = "; ".join(" ".join(map(str, row)) for row in self.table.rows[:12])
        return f"{self.note} {', '.join(self.table.headers)}: {rows}".strip()
