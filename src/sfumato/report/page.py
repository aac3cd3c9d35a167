"""A self-contained HTML page: no script, no outside resource, readable in any browser.

Its content security policy allows its own style sheet (by hash) and nothing else, so that even a
mistake in escaping could neither run a script nor call home. Templates escape all text; only
drawings are trusted. Decisions `pages` and `dependencies`.
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
"""Each picture is drawn at these widths in pixels: for screens and paper, and for phones."""
_HEADLINE_WIDTH = 326

# A number as people write it. A code such as 53715 has no thousands separator and is none.
_NUMBER = re.compile(r"([<>] )?-?\d{1,3}(,\d{3})*(\.\d+)?(e[+-]?\d+)?( %)?")

_LONG_WORD = re.compile(r"(\S{16})(?=\S{16})")
_GENERATOR = re.compile(r'<meta name="generator" content="([^"]*)">')


def render(
    title: str, blocks: Sequence[Block], *, lead: str, footer: str, generator: str = "Sfumato"
) -> str:
    """Return the whole page. `footer` is for people, `generator` names the program."""
    # The policy names the hash of exactly these bytes, so both come from one string.
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
    """Write a page that only its owner may read, completely or not at all."""
    with whole(path, overwrite=overwrite, private=True) as temporary:
        temporary.write_text(page, encoding="utf-8")


def generator_of(page: str) -> str | None:
    """Return the program that made a page, as the page states it."""
    match = _GENERATOR.search(page)
    return match[1] if match else None


def _sections(blocks: Sequence[Block]) -> list[tuple[str | None, list[Block]]]:
    """The blocks of each section by its heading; those before the first heading have None."""
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
    """An environment with the templates of packages, the first one first; it escapes all text."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package) for package in packages]),
        autoescape=True,
        undefined=StrictUndefined,  # a misspelled fact fails instead of leaving a hole
        finalize=_keep_percent_together,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {"anchor": _anchor, "numeric": _numeric, "pieces": _pieces}
    environment.filters["kind"] = lambda block: type(block).__name__
    environment.globals |= {"widths": WIDTHS, "headline_width": _HEADLINE_WIDTH}
    return environment


def _keep_percent_together(value: Any) -> Any:
    """Keep a percent sign on the line of its number; leave markup as it is."""
    return value.replace(" %", "\u00a0%") if type(value) is str else value


def _numeric(table: PageTable) -> list[bool]:
    """Return which columns have only numbers; they are aligned to the right."""
    columns = list(zip(*table.rows, strict=True)) or [()] * len(table.headers)
    return [
        bool(column) and all(_NUMBER.fullmatch(_text(cell)) for cell in column)
        for _, column in zip(table.headers, columns, strict=True)
    ]


def _pieces(cell: Cell) -> list[str]:
    """The text of a cell in pieces; the page may break a long word, such as a checksum, after each.

    A style rule instead would break every word of a narrow column.
    """
    return _LONG_WORD.sub("\\1\0", _text(cell)).split("\0")


def _text(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _anchor(text: str) -> str:
    """A heading as a name that a link can point to."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-") or "section"


def fragment(blocks: Sequence[Block]) -> str:
    """Blocks as part of another page, which must have the style sheet of pictures."""
    return _templates().get_template("fragment.html").render(blocks=blocks)


def fill(template: str, **facts: object) -> str:
    """Fill in one of the templates of this package; every fact is escaped."""
    return _templates().get_template(template).render(**facts)
