"""What can be counted in a release by whoever has it: from counts that are held, or in the engine.

Whether everyone in a class shares a sensitive value is told by a salted hash of it, which engines
compare quicker than texts: Spark sorts all rows to find the least text of each group.

Decisions 0192, 0246, 0272.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from secrets import token_hex
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato.data.counting.frequencies import DIFFERENT
from sfumato.data.counting.grouping import keys, runs
from sfumato.data.engines.base import column
from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy.base import ROOT
from sfumato.data.schema.names import count
from sfumato.errors import CriterionError, option
from sfumato.release.recoding import ByColumn, ByRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.arrays import BoolArray
    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.engines.base import Engine
    from sfumato.release.recoding import Recoding

_ROWS, _BLANK = "sf_class_rows", "sf_class_blank"
_OF_VALUES = ("low", "high")
_MISSING = -1


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
                f"rows out with {option('suppressed', 'drop')}.",
            )


NO_CLASSES = ReleasedClasses(
    pa.table({_ROWS: np.zeros(0, np.int64), _BLANK: np.zeros(0, np.int64)})
)
"""Of a release in which nobody looks for classes."""


def told_apart(engine: Engine, kinds: Mapping[str, Kind]) -> list[exp.Expr]:
    """A number for each value of some columns: the same for equal ones, a hash that none foresees.

    Zeros of either sign are equal, missing values too.
    """
    salt = token_hex(16)
    numbers: list[exp.Expr] = []
    for name, kind in kinds.items():
        value = column(name) + exp.convert(0) if kind is Kind.REAL else column(name)
        missing = exp.case().when(column(name).is_(exp.Null()), exp.convert(_MISSING))
        numbers.append(missing.else_(engine.traits.hashed(salt, [value])))
    return numbers


def regroup(
    counted: Frequencies,
    recoding: ByColumn | ByRow,
    *,
    labelled: Sequence[str],
    sensitive: Sequence[str],
) -> ReleasedClasses:
    """Unite combinations that are held into the classes of what a recoding releases.

    Rows alike in its columns must be released alike. The last columns of what was counted tell what
    all rows of a combination share of the sensitive ones, as `told_apart` numbers them. Blank rows
    are not looked for.
    """
    kept, worn = recoded(counted, recoding)
    labels = [worn[name] for name in labelled]
    codes = [one.indices.to_numpy() for one in labels]
    classes = runs(codes, [len(one.dictionary) for one in labels], counted.counts[kept])
    first = classes.order[classes.starts]
    found = {_label(place): one.take(pa.array(first)) for place, one in enumerate(labels)}
    found |= {_ROWS: classes.counts, _BLANK: np.zeros(len(first), np.int64)}
    told = len(counted.axes) - len(sensitive)
    for place in range(len(sensitive)):
        axis, shares = counted.axes[told + place], counted.codes[told + place]
        numbers = axis.decode(shares[kept][classes.order]).to_numpy()
        low, high = (one.reduceat(numbers, classes.starts) for one in (np.minimum, np.maximum))
        found[_shared(place)] = ((low == high) & (low != DIFFERENT)).astype(np.int64)
    return ReleasedClasses(pa.table(found), tuple(labelled), tuple(sensitive))


def recoded(
    counted: Frequencies, recoding: ByColumn | ByRow
) -> tuple[BoolArray, dict[str, pa.DictionaryArray]]:
    """Which combinations are released, and the labels that they wear."""
    maps = recoding.maps
    places = [_places(counted, one.column, one.values) for one in maps]
    codes = [one.codes.to_numpy()[place] for one, place in zip(maps, places, strict=True)]
    listed = recoding.suppressed if isinstance(recoding, ByColumn) else recoding.shares
    named = [listed.column(place).to_numpy() for place in range(len(maps))]
    both = [np.concatenate(pair).astype(np.int64) for pair in zip(codes, named, strict=True)]
    key, _ = keys(both, [int(one.max(initial=0)) + 1 for one in both])
    mine, theirs = np.split(key, [len(counted)])
    if isinstance(recoding, ByColumn):
        kept = np.isin(mine, theirs, invert=True)
        found = zip(maps, places, strict=True)
        return kept, {one.column: _worn(one.labels, place[kept]) for one, place in found}
    kept, order = np.isin(mine, theirs), np.argsort(theirs)
    share = order[np.searchsorted(theirs, mine[kept], sorter=order)]
    released = listed.select(listed.column_names[len(maps) + 1 :])
    columns = zip(released.column_names, released.columns, strict=True)
    return kept, {name: _worn(one.combine_chunks(), share) for name, one in columns}


def _places(counted: Frequencies, name: str, values: pa.Array) -> NDArray[np.integer]:
    """Where counted values of a column stand among those of its map, which has them all."""
    axis = counted.axis(name)
    met = axis.decode(np.arange(axis.size)).cast(values.type)
    places: NDArray[np.int32] = pc.index_in(met, value_set=values).to_numpy()
    return places.take(counted.codes[counted.columns.index(name)])


def _worn(labels: pa.Array, places: NDArray[np.integer]) -> pa.DictionaryArray:
    """The labels at some places; a missing one is a label like others."""
    return labels.dictionary_encode(null_encoding="encode").take(pa.array(places))


def remeasure(
    engine: Engine,
    recoding: Recoding,
    kinds: Mapping[str, Kind],
    *,
    quasi: Sequence[str],
    labelled: Sequence[str],
    sensitive: Sequence[str],
) -> ReleasedClasses:
    """Count the classes of what a recoding releases; of the `labelled` columns labels are told.

    Where rows alike in the mapped columns are released alike, they are counted first and recoded
    then, which is less to join.
    """
    unused = _unused((*kinds, *engine.columns(engine.table)))
    numbers = told_apart(engine, {name: kinds[name] for name in sensitive})
    facts = _Facts(unused, sensitive, kinds, numbers)
    with ExitStack() as lent:
        if recoding.by_value:
            mapped = [one.column for one in recoding.maps]
            kept = [name for name in quasi if name in recoding.unchanged]
            counted = facts.counted(engine.table, [*mapped, *kept])
            table = lent.enter_context(engine.view(counted))
            recoding = replace(recoding, unchanged=(*kept, *facts.names))
            rows = lent.enter_context(recoding.released(engine, table))
            rows.set("order", None)
        else:
            released = lent.enter_context(recoding.released(engine, engine.table))
            released.set("order", None)
            rows = facts.counted(released.subquery("sf_released_rows"), quasi)
        found = engine.run(facts.united(rows, quasi, labelled))
    return ReleasedClasses(found, tuple(labelled), tuple(sensitive))


@dataclass(frozen=True)
class _Facts:
    """What is counted of rows that are alike, under names that no column has."""

    prefix: str
    sensitive: Sequence[str]
    kinds: Mapping[str, Kind]
    numbers: Sequence[exp.Expr]

    @property
    def names(self) -> list[str]:
        """Rows, those without any sensitive value, and least and greatest numbers of values."""
        values = [f"{self.prefix}{what}_{n}" for n in self._places for what in _OF_VALUES]
        return [f"{self.prefix}rows", f"{self.prefix}bare", *values]

    @property
    def _places(self) -> range:
        return range(len(self.sensitive))

    def counted(self, rows: exp.Expr, by: Sequence[str]) -> exp.Select:
        """Count rows, by some columns."""
        empty = [_empty(name, self.kinds[name]) for name in self.sensitive]
        bare = exp.case().when(exp.and_(exp.true(), *empty), exp.convert(1)).else_(exp.convert(0))
        facts: list[exp.Expr] = [_whole(exp.Count(this=exp.Star())), _whole(exp.Sum(this=bare))]
        for number in self.numbers:
            facts += [exp.Min(this=number.copy()), exp.Max(this=number.copy())]
        named = (exp.alias_(one, name) for name, one in zip(self.names, facts, strict=True))
        keys = [column(name) for name in by]
        return exp.select(*keys, *named).from_(rows).group_by(*(key.copy() for key in keys))

    def united(
        self, counted: exp.Query, quasi: Sequence[str], labelled: Sequence[str]
    ) -> exp.Select:
        """Unite what was counted into classes."""
        rows, bare, *values = map(exp.column, self.names)
        size = _whole(exp.Sum(this=rows))
        blank = exp.and_(*(_empty(name, self.kinds[name]) for name in quasi))
        blanks = _whole(exp.Sum(this=exp.case().when(blank, bare).else_(exp.convert(0))))
        told: dict[str, exp.Expr] = {
            _label(place): column(name) for place, name in enumerate(labelled)
        }
        told |= {_ROWS: size, _BLANK: blanks}
        for place in self._places:
            low, high = values[2 * place : 2 * place + 2]
            alike = exp.EQ(this=exp.Min(this=low), expression=exp.Max(this=high))
            told[_shared(place)] = exp.case().when(alike, exp.convert(1)).else_(exp.convert(0))
        return (
            exp.select(*(exp.alias_(value, name) for name, value in told.items()))
            .from_(counted.subquery("sf_counted"))
            .group_by(*map(column, quasi))
        )


def _whole(number: exp.Expr) -> exp.Expr:
    return exp.cast(number, "BIGINT")


def _unused(names: Iterable[str]) -> str:
    """How names of ours begin, so that none is a column's."""
    prefix = "sf_"
    while any(name.casefold().startswith(prefix) for name in names):
        prefix += "_"
    return prefix


def _empty(name: str, kind: Kind) -> exp.Expr:
    """Whether a cell says nothing."""
    missing: exp.Expr = column(name).is_(exp.Null())
    return exp.paren(exp.or_(missing, column(name).eq(ROOT)) if kind is Kind.TEXT else missing)


def shared_by_all(name: str, exposed: int, classes: int, rows: int) -> str:
    """The warning about classes that hide nothing."""
    return (
        f"In {exposed:,} of {count(classes, 'class', 'classes')} everyone has the same {name} "
        f"({count(rows, 'row')}): whoever knows that a person is there knows it of that person. "
        f"Ask for diversity of {name}, for example l = 2."
    )


def _label(place: int) -> str:
    return f"sf_label_{place}"


def _shared(place: int) -> str:
    return f"sf_shared_{place}"
