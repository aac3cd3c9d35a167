"""Profile undeclared columns: one aggregate query for all, one more for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.data.inspection.spellings import Recognised
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.spelling import Spelling

MOST_TOP = 50
"""The largest number of most frequent values in a profile."""


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """One column in figures: one aggregate query, and one for its most frequent values.

    `kind` is what the source says it holds; for text, `fits` names the other kinds that every
    present cell could be read as, and `padded` whether a whole number among the cells begins with
    a zero that reading it as a number would lose. `distinct`, the lengths, the ends and `top` leave
    missing cells aside. The lengths are in characters, of text only. `minimum`, `maximum` and `top`
    hold values of the kind that `roles.kind_of` answers, which needs none of the three; `top`
    has the most frequent values with their counts, all of them where they are few enough.
    `spelling` is how the cells are written where they were read by it, and `warnings` is what the
    owner must know of how they were taken.
    """

    name: str
    kind: Kind
    rows: int
    nulls: int
    distinct: int
    fits: frozenset[Kind] = frozenset()
    padded: bool = False
    shortest: int | None = None
    longest: int | None = None
    minimum: Scalar | float | None = None
    maximum: Scalar | float | None = None
    top: tuple[tuple[Scalar | float, int], ...] = ()
    spelling: Spelling | None = None
    warnings: tuple[str, ...] = ()

    @property
    def present(self) -> int:
        """The number of cells that are not missing."""
        return self.rows - self.nulls

    @property
    def fixed_length(self) -> int | None:
        """The length of every text, where they all have the same."""
        return self.shortest if self.shortest == self.longest else None

    @property
    def all_distinct(self) -> bool:
        """Whether every one of several present values is different."""
        return self.distinct == self.present > 1


_ORDERED = (Kind.INTEGER, Kind.REAL, Kind.DATE)
# Aggregates per query: planning time of engines grows faster than their number.
_AT_ONCE = 120


@dataclass(frozen=True)
class TextFacts:
    """Facts about the text of a column, before it is read as another kind."""

    shortest: int | None
    longest: int | None
    padded: bool


def measure_texts(engine: Engine, table: exp.Table, names: Sequence[str]) -> dict[str, TextFacts]:
    """Measure text columns: the lengths of their cells, and whether any begins with a zero."""
    if not names:
        return {}
    facts: list[exp.Expr] = []
    for name in names:
        cell = exp.column(name, quoted=True)
        length = exp.Length(this=cell)
        zero = exp.Substring(this=cell, start=exp.convert(1), length=exp.convert(1)).eq("0")
        padded = exp.case().when(exp.and_(zero, length > 1), exp.convert(1)).else_(exp.convert(0))
        facts += [exp.Min(this=length), exp.Max(this=length.copy()), exp.Max(this=padded)]
    row = _one_row(engine, facts, table)
    triples = (row[number : number + 3] for number in range(0, len(row), 3))
    return {
        name: TextFacts(shortest, longest, padded == 1)
        for name, (shortest, longest, padded) in zip(names, triples, strict=True)
    }


def profile_columns(
    engine: Engine,
    table: exp.Table,
    kinds: Mapping[str, Kind],
    *,
    source_kinds: Mapping[str, Kind],
    fits: Mapping[str, set[Kind]],
    texts: Mapping[str, TextFacts],
    recognised: Mapping[str, Recognised],
    progress: Callable[[float, float], None] | None = None,
) -> list[ColumnProfile]:
    """Profile every column of a table that is read as the given kinds."""
    facts: list[exp.Expr] = [exp.Count(this=exp.Star())]
    for name, kind in kinds.items():
        cell = exp.column(name, quoted=True)
        facts.append(exp.Count(this=cell))
        if kind in _ORDERED:
            facts += [exp.Min(this=cell.copy()), exp.Max(this=cell.copy())]
    rows, *figures = _one_row(engine, facts, table)
    profiles: list[ColumnProfile] = []
    for number, (name, kind) in enumerate(kinds.items(), start=1):
        present, figures = figures[0], figures[1:]
        ends, figures = (figures[:2], figures[2:]) if kind in _ORDERED else ([None, None], figures)
        distinct, top = _top(engine, table, name)
        text = texts.get(name, TextFacts(None, None, False))
        written = recognised.get(name, Recognised())
        profiles.append(
            ColumnProfile(
                name=name,
                kind=source_kinds[name],
                rows=rows,
                nulls=rows - present,
                distinct=distinct,
                fits=frozenset(fits.get(name, ())),
                padded=text.padded,
                shortest=text.shortest,
                longest=text.longest,
                minimum=ends[0],
                maximum=ends[1],
                top=top,
                spelling=None if written.column is None else written.column.spelling,
                warnings=written.warnings,
            )
        )
        if progress is not None:
            progress(number, len(kinds))
    return profiles


def _top(engine: Engine, table: exp.Table, name: str) -> tuple[int, tuple[tuple[Any, int], ...]]:
    """The number of distinct values, and the most frequent ones, ties in order of the value."""
    cell = exp.column(name, quoted=True)
    grouped = (
        exp.select(exp.alias_(cell, "sf_value"), exp.alias_(exp.Count(this=exp.Star()), "sf_count"))
        .from_(table.copy())
        .where(cell.copy().is_(exp.Null()).not_())
        .group_by(cell.copy())
    )
    everything = exp.Window(this=exp.Count(this=exp.Star()))
    query = (
        exp.select("sf_value", "sf_count", exp.alias_(everything, "sf_distinct"))
        .from_(grouped.subquery("sf_grouped"))
        .order_by(exp.Ordered(this=exp.column("sf_count"), desc=True), exp.column("sf_value"))
        .limit(MOST_TOP)
    )
    top = engine.run(query)
    if top.num_rows == 0:
        return 0, ()
    pairs = zip(top["sf_value"].to_pylist(), top["sf_count"].to_pylist(), strict=True)
    return int(top["sf_distinct"][0].as_py()), tuple(pairs)


def _one_row(engine: Engine, facts: Sequence[exp.Expr], table: exp.Table) -> list[Any]:
    """Aggregates of the whole table, in blocks: engines plan thousands at once very slowly."""
    row: list[Any] = []
    for start in range(0, len(facts), _AT_ONCE):
        block = facts[start : start + _AT_ONCE]
        named = [exp.alias_(fact, f"sf_fact_{number}") for number, fact in enumerate(block)]
        row += engine.run(exp.select(*named).from_(table.copy())).to_pylist()[0].values()
    return row
