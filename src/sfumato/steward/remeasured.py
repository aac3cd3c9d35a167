"""What can be counted in a release by whoever has it, counted where its rows are made.

Decisions 0192, 0246.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.engines.base import column
from sfumato.errors import CriterionError
from sfumato.schema.column import Kind
from sfumato.schema.hierarchy.base import ROOT
from sfumato.schema.names import count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.anonymize.classes import Counts
    from sfumato.engines.base import Engine

_ROWS, _BLANK = "sf_rows", "sf_blank"


@dataclass(frozen=True, eq=False)
class ReleasedClasses:
    """The classes of a release: rows alike in its quasi-identifiers, and what all in one share.

    `found` has a row for each class: its labels, its rows, for each `sensitive` column whether they
    all share its value, and how many of them are blank.
    """

    found: pa.Table
    labelled: tuple[str, ...] = ()
    sensitive: tuple[str, ...] = ()

    def sizes(self) -> Counts:
        """How many rows each class has."""
        sizes: Counts = self.found[_ROWS].to_numpy()
        return sizes

    def labels(self, name: str) -> dict[str | None, int]:
        """The labels of a column, with the rows that wear them."""
        key = _label(self.labelled.index(name))
        worn = self.found.group_by(key, use_threads=False).aggregate([(_ROWS, "sum")])
        return dict(zip(worn[key].to_pylist(), worn[f"{_ROWS}_sum"].to_pylist(), strict=True))

    def findings(self) -> list[str]:
        """What the holder must be told, in words."""
        told = []
        for place, name in enumerate(self.sensitive):
            exposed = self.found.filter(pc.equal(self.found[_shared(place)], 1))
            if exposed.num_rows:
                rows = pc.sum(exposed[_ROWS]).as_py()
                told.append(shared_by_all(name, exposed.num_rows, self.found.num_rows, rows))
        return told

    def refuse_blank(self) -> None:
        """Refuse released rows that read like suppressed ones, where both stand in one file."""
        blank = pc.sum(self.found[_BLANK]).as_py() or 0
        if blank:
            raise CriterionError(
                "released_rows_blank",
                f"{count(blank, 'released row')} cannot be told from suppressed ones: every "
                "quasi-identifier and sensitive value of them is missing or '*'. Leave suppressed "
                "rows out with --suppressed drop.",
            )


NO_CLASSES = ReleasedClasses(
    pa.table({_ROWS: np.zeros(0, np.int64), _BLANK: np.zeros(0, np.int64)})
)
"""Of a release in which nobody looks for classes."""


def remeasure(
    engine: Engine,
    rows: exp.Query,
    kinds: Mapping[str, Kind],
    *,
    quasi: Sequence[str],
    labelled: Sequence[str],
    sensitive: Sequence[str],
) -> ReleasedClasses:
    """Count the classes of a query's rows; of the `labelled` quasi-identifiers labels are told."""
    blank = exp.and_(*(_empty(name, kinds[name]) for name in (*quasi, *sensitive)))
    blanks = exp.Sum(this=exp.case().when(blank, exp.convert(1)).else_(exp.convert(0)))
    facts = {
        **{_label(place): column(name) for place, name in enumerate(labelled)},
        _ROWS: exp.cast(exp.Count(this=exp.Star()), "BIGINT"),
        **{_shared(place): _all_alike(name, kinds[name]) for place, name in enumerate(sensitive)},
        _BLANK: exp.cast(blanks, "BIGINT"),
    }
    query = (
        exp.select(*(exp.alias_(value, name) for name, value in facts.items()))
        .from_(rows.subquery("sf_rows_released"))
        .group_by(*map(column, quasi))
    )
    return ReleasedClasses(engine.run(query), tuple(labelled), tuple(sensitive))


def _empty(name: str, kind: Kind) -> exp.Expr:
    """Whether a cell says nothing."""
    missing: exp.Expr = column(name).is_(exp.Null())
    return exp.paren(exp.or_(missing, column(name).eq(ROOT)) if kind is Kind.TEXT else missing)


def _all_alike(name: str, kind: Kind) -> exp.Expr:
    """1 where all rows of a class share a value, or that it is missing."""
    # PostgreSQL has no least of truth values.
    value = exp.cast(column(name), "TEXT") if kind is Kind.BOOLEAN else column(name)
    known = exp.Count(this=column(name))
    one = exp.EQ(this=exp.Min(this=value), expression=exp.Max(this=value.copy()))
    everywhere = exp.EQ(this=known, expression=exp.Count(this=exp.Star()))
    alike = exp.or_(exp.and_(everywhere, one), known.copy().eq(0))
    return exp.case().when(alike, exp.convert(1)).else_(exp.convert(0))


def shared_by_all(name: str, exposed: int, classes: int, rows: int) -> str:
    """The warning about classes that hide nothing."""
    return (
        f"In {exposed:,} of {count(classes, 'class', 'classes')} everyone has the same {name} "
        f"({count(rows, 'row')}): whoever knows that a person is there knows it of that person. "
        f"Ask for diversity of {name}, e.g. --l 2."
    )


def _label(place: int) -> str:
    return f"sf_label_{place}"


def _shared(place: int) -> str:
    return f"sf_shared_{place}"
