"""Cards and pictures of objects for notebooks, light or dark as these are.

Decision 0227.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.cards import Pictures
from sfumato.errors import ParameterError
from sfumato.report.charts import bar
from sfumato.report.page import fill
from sfumato.report.plots import pictures_of
from sfumato.report.terminal import in_words, named

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.cards import Card
    from sfumato.release.release import Release


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


def plot(release: Release) -> Pictures:
    """The pictures that the page of a release has."""
    found = pictures_of(release)
    lost = (release.error or {}).get("ncp") if release.holder is not None else None
    if lost:
        label = "Information lost in each column, as a share of its hierarchy"
        found.append(
            bar(list(lost.items()), label=label, what="Column", value="Loss", percent=True)
        )
    if not found:
        raise ParameterError(
            "nothing_to_draw",
            "There is nothing in this release that a picture would help to see. Look at its "
            "tables: release.to_pandas().",
        )
    return Pictures(found)


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
