"""An HTML page that needs nothing but itself: no script, no outside resource, readable anywhere.

The page forbids itself everything but its own style sheet (by hash), so that even a mistake in
escaping could neither run a script nor call home. How it looks is said in templates, which escape
whatever they are given; only drawings are taken as they are. Decisions 0071, 0200 and 0233.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from sfumato.filesystem import whole
from sfumato.report.blocks import Heading
from sfumato.report.palette import picture_style, sheet

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from jinja2 import Environment

    from sfumato.report.blocks import Block, Cell, PageTable

WIDTHS = {"wide": 764, "narrow": 354}
"""Widths in pixels at which each chart is drawn: one for screens and paper, one for telephones."""
_HEADLINE_WIDTH = 326

# A number as people write it; a code such as 53715 has no thousands set apart and is none.
_NUMBER = re.compile(r"([<>] )?-?\d{1,3}(,\d{3})*(\.\d+)?(e[+-]?\d+)?( %)?")

_LONG = re.compile(r"(\S{16})(?=\S{16})")
_GENERATOR = re.compile(r'<meta name="generator" content="([^"]*)">')


def render(
    title: str, blocks: Sequence[Block], *, lead: str, footer: str, generator: str = "Sfumato"
) -> str:
    """Write the whole page; `footer` tells people where it came from, `generator` programs."""
    style = picture_style() + sheet("page.css")
    return (
        _templates()
        .get_template("page.html")
        .render(
            title=title,
            lead=lead,
            footer=footer,
            generator=generator,
            style=style,
            digest=b64encode(sha256(style.encode()).digest()).decode(),
            sections=_sections(blocks),
        )
    )


def write_page(page: str, path: Path, *, overwrite: bool) -> None:
    """Write a page that its owner alone may read, whole or not at all."""
    with whole(path, overwrite=overwrite, private=True) as temporary:
        temporary.write_text(page, encoding="utf-8")


def generator_of(page: str) -> str | None:
    """The program that a page says it was made by."""
    found = _GENERATOR.search(page)
    return found[1] if found else None


def _sections(blocks: Sequence[Block]) -> list[tuple[str | None, list[Block]]]:
    """The blocks under each heading of a section; those before the first one are under none."""
    sections: list[tuple[str | None, list[Block]]] = [(None, [])]
    for block in blocks:
        if isinstance(block, Heading) and block.level == 2:
            sections.append((block.text, []))
        else:
            sections[-1][1].append(block)
    return sections


@cache
def _templates() -> Environment:
    return templates("sfumato.report")


def templates(*packages: str) -> Environment:
    """The templates of packages, those of the first before all: whatever they get is escaped."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    made = Environment(
        loader=ChoiceLoader([PackageLoader(one) for one in packages]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_on_one_line,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters |= {"anchor": _anchor, "kind": _kind, "numeric": _numeric, "pieces": _pieces}
    made.globals |= {
        "widths": WIDTHS,
        "headline_width": _HEADLINE_WIDTH,
    }
    return made


def _on_one_line(value: Any) -> Any:
    """A percent sign stays on the line of its number; what is markup already stays as it is."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value


def _kind(block: Block) -> str:
    return type(block).__name__


def _numeric(table: PageTable) -> list[bool]:
    """The columns whose cells are all numbers: they stand to the right."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.headers)
    return [
        bool(column) and all(_NUMBER.fullmatch(_text(cell)) for cell in column)
        for _, column in zip(table.headers, columns, strict=True)
    ]


def _pieces(cell: Cell) -> list[str]:
    """The text of a cell; a word such as a checksum may be broken, or the page would be.

    Not by style: any word of a narrow column would be.
    """
    return _LONG.sub("\\1\0", _text(cell)).split("\0")


def _text(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _anchor(text: str) -> str:
    """Turn a heading into a name that a link can point to."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def fragment(blocks: Sequence[Block]) -> str:
    """Blocks as a part of another page of ours, which has the style sheet of pictures."""
    return _templates().get_template("fragment.html").render(blocks=blocks)


def fill(template: str, **facts: object) -> str:
    """A template of ours with these facts, every one of them escaped."""
    return _templates().get_template(template).render(**facts)
