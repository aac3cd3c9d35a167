"""Cards of objects as HTML for notebooks, light or dark like the notebook. Decision `pages`.

Apart from `display`, so that showing an object outside a notebook loads no templates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.report.page import fill
from sfumato.report.value_text import figure_name, value_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.report.display import Card


def html(kind: str, card: Card) -> str:
    """A card as HTML; the template escapes every text in it."""
    table = card.table
    return fill(
        "notebook.html",
        kind=kind,
        line=card.line,
        facts=[(name.replace("_", " "), _text(value)) for name, value in card.facts.items()],
        titles=[] if table is None else table.titles,
        rows=[] if table is None else [list(map(_text, row)) for row in table.rows],
        right=[] if table is None else table.right or _right(table.rows),
        more=0 if table is None else table.hidden_rows,
        notes=card.notes,
    )


def _text(value: object) -> str:
    """A value of a card as text."""
    if isinstance(value, dict):
        return ", ".join(f"{figure_name(str(name))} {_text(item)}" for name, item in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_text, value))
    return value_text(value) if isinstance(value, int | float | None) else str(value)


def _right(rows: Sequence[Sequence[object]]) -> list[bool]:
    """Return which columns have only numbers; they are aligned to the right."""
    return [
        all(isinstance(cell, int | float | None) and not isinstance(cell, bool) for cell in column)
        for column in zip(*rows, strict=True)
    ]
