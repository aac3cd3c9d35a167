"""Cards of objects for notebooks, light or dark as these are.

Decision 0227.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.report.page import fill
from sfumato.report.terminal import in_words, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.report.display import Card


def html(kind: str, card: Card) -> str:
    """A card in HTML; whatever it says is escaped."""
    table = card.table
    return fill(
        "notebook.html",
        kind=kind,
        said=card.line,
        facts=[(name.replace("_", " "), _words(value)) for name, value in card.facts.items()],
        titles=[] if table is None else table.titles,
        rows=[] if table is None else [list(map(_words, row)) for row in table.rows],
        right=[] if table is None else table.right or _right(table.rows),
        more=0 if table is None else table.more,
        notes=card.notes,
    )


def _words(value: object) -> str:
    """A value of a card in words; whatever is neither number nor list of them speaks for itself."""
    if isinstance(value, dict):
        return ", ".join(f"{named(str(name))} {_words(one)}" for name, one in value.items())
    if isinstance(value, list | tuple):
        return "; ".join(map(_words, value))
    return in_words(value) if isinstance(value, int | float | None) else str(value)


def _right(rows: Sequence[Sequence[object]]) -> list[bool]:
    """The columns of numbers, which stand to the right."""
    return [
        all(isinstance(one, int | float | None) and not isinstance(one, bool) for one in column)
        for column in zip(*rows, strict=True)
    ]
