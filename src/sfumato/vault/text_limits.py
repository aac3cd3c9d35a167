"""How much of a text a private method reads: the one place where texts are cut, for every engine.

What one person's texts cost an engine is then known from the schema, a public fact: 280 cells of
8 MB once filled its memory, and so one person decided whether a question was answered. A text is
cut to its first characters, as many as `Column.characters` says. Every method, whatever its family,
reads through `DataStore.together`, which cuts after consent: that goes by whole names. What is
anonymized is never cut. Decision 0501.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from sfumato.engines.wellformed import TextLimit, limited
from sfumato.schema.column import USUAL_LENGTH, Kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sfumato.method import Dataset
    from sfumato.privacy.units import Unit
    from sfumato.schema.column import Column


def text_limits(columns: Iterable[Column], unit: Unit) -> dict[str, TextLimit | None]:
    """How many characters of each column are read; None for what is no text.

    Names of people are read whole or not at all, up to at least `USUAL_LENGTH` characters: a cut
    would make one person of two, who together move more than the unit allows to one.
    """
    limits: dict[str, TextLimit | None] = {}
    for column in columns:
        if column.kind is not Kind.TEXT:
            limits[column.name] = None
        elif column.name in unit.columns:
            limits[column.name] = TextLimit(max(column.characters, USUAL_LENGTH), whole=True)
        else:
            limits[column.name] = TextLimit(column.characters)
    return limits


def with_short_texts(
    datasets: Mapping[str, Dataset], private: Collection[str]
) -> dict[str, Dataset]:
    """Data sets of which queries see the declared columns, and of private texts the first part."""
    return {
        name: replace(data, table=limited(data.table, text_limits(data.schema.columns, data.unit)))
        if name in private
        else data
        for name, data in datasets.items()
    }
