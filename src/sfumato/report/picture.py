"""A picture: SVG at any width, as part of a page or as a file of its own. Decision `pages`."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from sfumato import arguments
from sfumato.data.schema.names import quoted
from sfumato.errors import OutputError
from sfumato.filesystem import whole
from sfumato.report.drawing import SMALL, TEXT, Drawing, escape_text, wrapped
from sfumato.report.palette import picture_style

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.report.blocks import PageTable

_SUFFIX = ".svg"
_FILE_WIDTH = 640
_MARGIN = 16
_LINE = 19


@dataclass(frozen=True)
class Picture:
    """A drawing with a title, a table of its numbers and a note for its reader.

    A notebook shows it by itself. `svg` is the text of an SVG file, light or dark like its viewer.
    """

    label: str
    table: PageTable = field(repr=False)
    paint: Callable[[Drawing], None] = field(repr=False, compare=False)
    note: str = ""

    def draw(self, width: float) -> str:
        """The drawing as part of a page, which adds the style sheet, the title and the note."""
        drawing = Drawing(width)
        self.paint(drawing)
        return drawing.svg('aria-hidden="true" focusable="false"')

    @property
    def svg(self) -> str:
        """The drawing as a whole SVG file, with its own style sheet, title and description."""
        inner = Drawing(_FILE_WIDTH)
        self.paint(inner)
        outer = Drawing(_FILE_WIDTH + 2 * _MARGIN)
        title_lines = wrapped(self.label, _FILE_WIDTH, TEXT)
        note_lines = wrapped(self.note, _FILE_WIDTH, SMALL)
        top = _MARGIN + _LINE * len(title_lines) + 4
        outer.height = top + inner.height + _LINE * len(note_lines) + _MARGIN
        outer.rectangle(0, 0, outer.width, outer.height, "paper")
        for index, line in enumerate(title_lines):
            outer.text((_MARGIN, _MARGIN + _LINE * index + 10), line, "name")
        outer.add(inner.svg(f'x="{_MARGIN}" y="{top}"'))
        for index, line in enumerate(note_lines):
            outer.text((_MARGIN, top + inner.height + _LINE * index + 14), line)
        # Screen readers get the first rows of the table: an SVG file has no table below it.
        rows = "; ".join(" ".join(map(str, row)) for row in self.table.rows[:12])
        description = f"{self.note} {', '.join(self.table.headers)}: {rows}".strip()
        before = (
            f"<title>{escape_text(self.label)}</title><desc>{escape_text(description)}</desc>"
            f"<style>{picture_style()}</style>"
        )
        return outer.svg('xmlns="http://www.w3.org/2000/svg" role="img"', before)

    def save(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the picture as an SVG file; its name must end in .svg."""
        target = arguments.path(path, "path")
        if target.suffix.lower() != _SUFFIX:
            raise OutputError(
                "format_unknown",
                f"Cannot tell the format of {quoted(str(target))}. Choose a name that ends in "
                f"{_SUFFIX}.",
            )
        with whole(target, overwrite=overwrite) as temporary:
            temporary.write_text(self.svg + "\n", encoding="utf-8")

    def _repr_html_(self) -> str:
        # As an image, the picture cannot mix its style sheet with that of the notebook.
        data = b64encode(self.svg.encode()).decode()
        return f'<img alt="{escape_text(self.label)}" src="data:image/svg+xml;base64,{data}">'
