"""An HTML page that needs nothing but itself: no script, no outside resource, readable anywhere.

The page forbids itself everything but its own style sheet (by hash), so that even a mistake in
escaping could neither run a script nor call home.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache, singledispatchmethod
from hashlib import sha256
from html import escape as escape_html
from importlib.resources import files
from typing import TYPE_CHECKING

from sfumato.report import maps as mosaic
from sfumato.report.blocks import (
    Block,
    Chart,
    FileLinks,
    Heading,
    Headline,
    KeyFigures,
    Mosaic,
    Note,
    PageTable,
    Paragraph,
)
from sfumato.report.charts import draw

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.report.blocks import Cell

WIDE, NARROW = 764, 360
"""Widths in pixels at which each chart is drawn: one for screens and paper, one for telephones."""
_HEADLINE_WIDTH = 326

# A number as people write it; a code such as 53715 has no thousands set apart and is none.
_NUMBER = re.compile(r"([<>] )?-?\d{1,3}(,\d{3})*(\.\d+)?(e[+-]?\d+)?( %)?")

_LONG = re.compile(r"(\S{16})(?=\S{16})")


def render(
    title: str, blocks: Sequence[Block], *, lead: str, footer: str, generator: str = "Sfumato"
) -> str:
    """Write the whole page; `footer` tells people where it came from, `generator` programs."""
    sections = [block.text for block in blocks if isinstance(block, Heading) and block.level == 2]
    contents = "".join(
        f'<li><a href="#{_anchor(text)}">{escape(text)}</a></li>' for text in sections
    )
    navigation = (
        f'<nav aria-label="Contents"><ol>{contents}</ol></nav>' if len(sections) > 1 else ""
    )
    style = _style()
    digest = b64encode(sha256(style.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="generator" content="{escape(generator)}">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n"
        f'<header>\n<h1>{escape(title)}</h1>\n<p class="lead">{escape(lead)}</p>\n{navigation}\n'
        f"</header>\n<main>\n{_Writer().write(blocks)}</main>\n"
        f"<footer>{escape(footer)}</footer>\n</body>\n</html>\n"
    )


class _Writer:
    """Writes blocks one after another, keeping count of charts and open sections."""

    def __init__(self) -> None:
        self._drawings = 0
        self._in_section = False

    def write(self, blocks: Sequence[Block]) -> str:
        parts = [self.block(block) for block in blocks]
        if self._in_section:
            parts.append("</section>")
        return "\n".join(parts) + "\n"

    @singledispatchmethod
    def block(self, block: Block) -> str:
        raise TypeError(type(block).__name__)

    @block.register
    def _(self, block: Heading) -> str:
        anchor, text = _anchor(block.text), escape(block.text)
        if block.level != 2:
            return f"<h{block.level}>{text}</h{block.level}>"
        close = "</section>\n" if self._in_section else ""
        self._in_section = True
        return f'{close}<section id="{anchor}" aria-label="{text}">\n<h2>{text}</h2>'

    @block.register
    def _(self, block: Paragraph) -> str:
        return f"<p>{escape(block.text)}</p>"

    @block.register
    def _(self, block: Note) -> str:
        tone = "note warning" if block.warning else "note"
        return f'<p class="{tone}" role="note">{escape(block.text)}</p>'

    @block.register
    def _(self, block: PageTable) -> str:
        caption = escape(block.caption)
        inner = _table(block)
        if not block.folded:
            return inner
        return f"<details><summary>{caption}</summary>{inner}</details>"

    @block.register
    def _(self, block: Chart) -> str:
        drawings = [
            f'<div class="{kind}" role="img" aria-label="{escape(block.label)}">'
            f"{self._draw(block, width)}</div>"
            for kind, width in (("wide", WIDE), ("narrow", NARROW))
        ]
        return _figure(block, "".join(drawings))

    @block.register
    def _(self, block: Mosaic) -> str:
        # By the first picture, so that a noisy one cannot make the others pale.
        begins = mosaic.shade_steps(float(block.tiles[0][1].max()))
        tiles = "".join(
            f'<figure><div role="img" aria-label="{escape(name)}">'
            f'<svg viewBox="0 0 {cells.shape[1]} {cells.shape[0]}" shape-rendering="crispEdges">'
            f"{mosaic.draw_tile(cells, begins)}</svg></div>"
            f"<figcaption>{escape(name)}</figcaption></figure>"
            for name, cells in block.tiles
        )
        keys = "".join(
            f'<li><svg viewBox="0 0 1 1"><rect width="1" height="1" fill="{colour}"/></svg>'
            f"{escape(words)}</li>"
            for colour, words in mosaic.shade_legend(begins)
        )
        return _figure(block, f'<div class="tiles">{tiles}</div><ul class="shades">{keys}</ul>')

    @block.register
    def _(self, block: KeyFigures) -> str:
        pairs = "".join(
            f"<div><dt>{escape(what)}</dt><dd>{escape(number)}</dd></div>"
            for number, what in block.figures
        )
        return f'<dl class="figures">{pairs}</dl>'

    @block.register
    def _(self, block: Headline) -> str:
        drawing = (
            f'<div role="img" aria-label="{escape(block.chart.label)}">'
            f"{self._draw(block.chart, _HEADLINE_WIDTH)}</div>"
        )
        return (
            f'<div class="headline"><div><p class="figure">{escape(block.figure)}</p>'
            f'<p class="sentence">{escape(block.sentence)}</p></div>'
            f"<figure>{drawing}</figure></div>"
        )

    @block.register
    def _(self, block: FileLinks) -> str:
        items = "".join(
            f'<li><a href="{escape(name)}">{escape(name)}</a>: {escape(what)}</li>'
            for name, what in block.files
        )
        return f'<ul class="files">{items}</ul>'

    def _draw(self, chart: Chart, width: int) -> str:
        self._drawings += 1
        svg = draw(chart.spec, width=width, name=f"drawing{self._drawings}")
        return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" ', 1)


def _figure(chart: Chart | Mosaic, drawings: str) -> str:
    return (
        f"<figure><figcaption>{escape(chart.label)}</figcaption>{drawings}"
        f"<details><summary>Show these figures as a table</summary>{_table(chart.table)}</details>"
        "</figure>"
    )


def _table(table: PageTable) -> str:
    """Write a table; columns whose cells are all numbers stand to the right."""
    numeric = [
        bool(column) and all(_NUMBER.fullmatch(_text(cell)) for cell in column)
        for column in ([row[i] for row in table.rows] for i in range(len(table.headers)))
    ]
    kinds = [' class="number"' if right else "" for right in numeric]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>'
        for name, kind in zip(table.headers, kinds, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{kind}>{_breakable(_text(cell))}</td>"
            for cell, kind in zip(row, kinds, strict=True)
        )
        + "</tr>\n"
        for row in table.rows
    )
    caption = escape(table.caption)
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{caption}"><table>'
        f"<caption>{caption}</caption>"
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div>"
    )


def escape(text: str) -> str:
    """Escape text for any place in a page; a percent sign stays on the line of its number."""
    return escape_html(text).replace(" %", "\u00a0%")


def _breakable(text: str) -> str:
    """Escape the text of a cell; a word such as a checksum may be broken, or the page would be.

    Not by style: any word of a narrow column would be.
    """
    return escape(_LONG.sub("\\1\0", text)).replace("\0", "<wbr>")


def _text(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _anchor(text: str) -> str:
    """Turn a heading into a name that a link can point to."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


@cache
def _style() -> str:
    return files("sfumato.report").joinpath("page.css").read_text(encoding="utf-8")
