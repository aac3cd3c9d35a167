"""Association rules: what people who have some items have besides, by PrivBasis.

Of a table of items each person is a basket. Of a plain table each row is one, and its items are
"column = value" for each declared value; of truths the true ones alone.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from json import dumps
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.data.counting.axes import Listed, declared
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema import Items
from sfumato.errors import ParameterError, option
from sfumato.methods.itemsets import frequent
from sfumato.methods.itemsets.privbasis import MOST_K, PrivBasis
from sfumato.methods.itemsets.transactions import RowSets
from sfumato.methods.learn.model import Model
from sfumato.methods.options import whole
from sfumato.methods.publish.request import FormRequest, FormRows
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.itemsets.frequent import FrequentSets
    from sfumato.methods.itemsets.privbasis import NoisySupports
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

    Itemset = frozenset[int]
    Truths = NDArray[np.bool_]


# What goes with what: rules read off noisy supports, with how far their figures are off.
#
# With a rule "who has A has b", X = A and b, N all transactions and n(.) the noisy counts:
#
#     support n(X) / N        confidence n(X) / n(A)        lift n(X) N / (n(A) n(b))
#
# Their deviations are by the delta method, from the covariances of all four counts: the relative
# deviation of a product of powers is that of the sum of its logarithms, to first order. That is
# only
# good where a count below a line is many times its own deviation; where one is not, the rule says
# so,
# and where noise alone could be all of n(A), there is no rule. Rules are ordered by a lower bound
# of
# their confidence (95 % on one side), so that a lucky small count does not come first. What is
# stated
# is the noise alone, about these very people; and rules that are told of because they came out
# high
# are too high on average.
#
# Decision `itemsets`.

_CLEAR = 2.0
"""A set is told of from so many deviations on."""
_BELOW = 1.64
"""So many deviations below an estimate is a bound of 95 % on one side."""
_SURE = 5.0
"""To first order is good where counts below a line are so many deviations."""
_POWERS = {"support": (1, 0, 0, -1), "confidence": (1, -1, 0, 0), "lift": (1, -1, -1, 1)}
"""The powers of n(X), n(A), n(b) and N in each figure."""


class NoisyRatio(NamedTuple):
    """A ratio of counts, and its deviation."""

    value: float
    sd: float


class Association(NamedTuple):
    """A rule: who has all of some items also has another one."""

    given: tuple[int, ...]
    then: int
    both: float
    """How many have all of it."""
    support: NoisyRatio
    confidence: NoisyRatio
    lift: NoisyRatio
    approximate: bool
    """Whether deviations are no more than a rough guess."""

    @property
    def sure(self) -> float:
        """A lower bound of its confidence, by which rules are ordered."""
        return min(self.confidence.value, 1.0) - _BELOW * self.confidence.sd


def associations(
    found: NoisySupports, k: int, *, size: int, confidence: float
) -> list[Association]:
    """The rules of at least some confidence in the k most frequent sets, the surest first."""
    rules = [
        _rule(found, one.items, then)
        for one in found.most_frequent(k, size=size)
        if len(one.items) > 1 and one.estimate >= max(_CLEAR * one.sd, 1.0)
        for then in sorted(one.items)
    ]
    kept = [one for one in rules if one is not None and one.confidence.value >= confidence]
    return sorted(kept, key=lambda one: (-one.sure, -one.both, one.given, one.then))


def _rule(found: NoisySupports, items: Itemset, then: int) -> Association | None:
    """The rule from all other items of a set to one; none where noise may be all of these."""
    sets = [items, items - {then}, frozenset({then}), frozenset[int]()]
    counts = np.array([found.count(one) for one in sets])
    if counts.min() < 1 or counts[1] <= _BELOW * found.sd(sets[1]):
        return None
    spread = np.array([[found.covariance(one, other) for other in sets] for one in sets])
    figures = {name: _figure(counts, spread, np.array(one)) for name, one in _POWERS.items()}
    below = np.sqrt(np.diag(spread)[1:]) * _SURE > counts[1:]
    return Association(
        tuple(sorted(items - {then})),
        then,
        float(counts[0]),
        **figures,
        approximate=bool(below.any()),
    )


def _figure(
    counts: np.ndarray[tuple[int], np.dtype[np.float64]],
    spread: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    powers: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> NoisyRatio:
    value = float(np.prod(counts**powers))
    slopes = powers / counts
    variance = max(float(slopes @ spread @ slopes), 0.0)
    return NoisyRatio(value, value * variance**0.5)


# Rules that were learnt, as a model: what they suggest to a basket.


class Suggestion(NamedTuple):
    """An item that a basket lacks, and the confidence of the surest rule that leads to it."""

    item: str
    confidence: float


class RuleBook(Model):
    """Rules from some items to another, the surest first.

    Of a table of items, what is told of a row is what is suggested to the basket that it is of. Of
    a plain table it is a "column = value" of a column whose value is missing in the row. How sure a
    rule is, is a lower bound of its confidence, by which rules come ordered.
    """

    @property
    def _rules(self) -> list[tuple[list[str], str, float]]:
        table = self.tables["rules"]
        names = [one for one in table.column_names if one.startswith("if_")]
        return [
            ([row[one] for one in names if row[one] is not None], row["then"], row["confidence"])
            for row in table.to_pylist()
        ]

    def check(self) -> None:
        """Refuse rules that lack a part, and baskets that are not two columns."""
        baskets = self.facts["baskets"]
        assert baskets is None or list(baskets) == list(self.features)
        for items, then, confidence in self._rules:
            assert items
            assert all(isinstance(one, str) for one in (*items, then))
            assert 0 <= confidence <= 1

    def suggest(self, basket: Sequence[str]) -> list[Suggestion]:
        """What whoever has a basket has besides, by all rules that it meets, the surest first."""
        held = set(arguments.names(basket, "basket"))
        found: dict[str, float] = {}
        for items, then, confidence in self._rules:
            if then not in held and held.issuperset(items):
                found.setdefault(then, confidence)
        return [Suggestion(*one) for one in found.items()]

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The surest suggestion to the basket of each row, and its confidence; null if none."""
        rules = self._rules
        names = sorted({one for items, then, _ in rules for one in (*items, then)})
        place = {one: number for number, one in enumerate(names)}
        of, has, closed = self._held(rows, place)
        told = np.full(len(has), -1)
        for number, (items, then, _) in enumerate(rules):
            meets = has[:, [place[one] for one in items]].all(axis=1) & ~closed[:, place[then]]
            told[meets & (told < 0)] = number
        mine = told[of]
        chosen = pa.array(mine, mask=mine < 0)
        then_of = pa.array([then for _, then, _ in rules], pa.string())
        sure = pa.array([confidence for *_, confidence in rules], pa.float64())
        return {"suggested": then_of.take(chosen), "confidence": sure.take(chosen)}

    def _held(self, rows: pa.Table, place: Mapping[str, int]) -> tuple[IntArray, Truths, Truths]:
        """Which basket each row is of, which items baskets have, and which cannot be suggested."""
        if self.facts["baskets"] is None:
            has, closed = _of_columns(rows, place)
            return np.arange(len(has)), has, closed
        owners, items = (rows.column(one).combine_chunks() for one in self.features)
        coded = owners.dictionary_encode(null_encoding="encode")
        of = coded.indices.to_numpy().astype(np.int64)
        has = np.zeros((len(coded.dictionary), len(place)), dtype=bool)
        distinct = items.dictionary_encode(null_encoding="encode")
        code = np.array(
            [place.get(item_text(one), -1) for one in distinct.dictionary.to_pylist()], dtype=int
        )
        found = code[distinct.indices.to_numpy()]
        has[of[found >= 0], found[found >= 0]] = True
        return of, has, has


def _of_columns(rows: pa.Table, place: Mapping[str, int]) -> tuple[Truths, Truths]:
    """The items of rows of a plain table; closed are all items of a column that has a value."""
    has = np.zeros((rows.num_rows, len(place)), dtype=bool)
    closed = np.zeros_like(has)
    for name in rows.column_names:
        coded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy()
        for code, value in enumerate(coded.dictionary.to_pylist()):
            if value is None:
                continue
            mine = codes == code
            for item, number in place.items():
                if item.startswith(f"{_marked(name)} = "):
                    closed[mine, number] = True
            if (number := place.get(item_text(value, name), -1)) >= 0:
                has[mine, number] = True
    return has, closed


def item_text(value: Any, column: str | None = None) -> str:
    """An item as it is written in a rule."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return text if column is None else f"{_marked(column)} = {_marked(text)}"


def _marked(text: str) -> str:
    """A part of an item, in quotes where it could be taken for more than a part."""
    return dumps(text, ensure_ascii=False) if "=" in text or '"' in text else text


MODEL = RuleBook
_MOST_SIZE = 6
_MOST_COLUMNS = 100


@dataclass(frozen=True)
class RowSource:
    """Rows of declared columns as baskets: what `PrivBasis` counts of them."""

    axes: tuple[Listed, ...]
    items: tuple[tuple[int, int], ...]
    names: tuple[str, ...]
    unit: Unit
    basis: PrivBasis

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.basis.event

    @property
    def error(self) -> Mapping[str, Any]:
        """How far counts are off at least."""
        return {"count": {"sd": None, "least_sd": self.basis.least_noise.stddev}}

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many sets are looked for."""
        return self.basis.parameters

    def measure(self, salted: SaltedData, entropy: Entropy) -> tuple[list[str], NoisySupports]:
        """The names of the chosen items, and the supports of sets of them."""
        data = salted.data
        counter = BoundedCounter(data.engine, data.table, self.axes, self.unit, salted.salt)
        rows = counter.of([axis.column for axis in self.axes])
        chosen, found = self.basis.measure(RowSets(rows.codes, rows.counts, self.items), entropy)
        return [self.names[one] for one in chosen.tolist()], found


@dataclass(frozen=True)
class ItemSource:
    """A table of items: each person is a basket."""

    sets: FrequentSets

    @property
    def basis(self) -> PrivBasis:
        """What chooses and counts."""
        return self.sets.basis

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.sets.event

    @property
    def error(self) -> Mapping[str, Any]:
        """How far counts are off at least."""
        return self.sets.error

    @property
    def parameters(self) -> Mapping[str, Any]:
        """How many sets are looked for, and how large they may be."""
        return self.sets.parameters

    def measure(self, salted: SaltedData, entropy: Entropy) -> tuple[list[str], NoisySupports]:
        """The names of the chosen items, and the supports of sets of them."""
        values, found = self.sets.measure(FormRows(salted.data, salted.salt), entropy)
        return [item_text(one) for one in values.to_pylist()], found


@dataclass(frozen=True)
class Rules:
    """Rules of frequent sets: support, confidence and lift of each, with deviations.

    *Guarantee*: that of `PrivBasis` (and of `FrequentSets` for private items); rules are read off
    its noisy counts.
    *Sensitivity*: see `PrivBasis`; with m rows a person of a plain table, m baskets.
    *Error*: by the delta method from the covariances of the noise; see `associations`.
    *Edges*: sets and left sides that noise alone could explain, and rules with a count below 1
    under a line, are left out, so there may be none. What follows is one item.
    *Reference*: Li, Qardaji, Su & Cao 2012; Agrawal, Imielinski & Swami 1993 for the rules.
    """

    source: RowSource | ItemSource
    size: int
    confidence: float
    baskets: tuple[str, str] | None
    """The columns of baskets and items, where it is of items."""

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.source.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """What is looked for."""
        chosen = {"size": self.size, "confidence": self.confidence}
        return {**self.source.parameters, **chosen}

    @property
    def error(self) -> Mapping[str, Any]:
        """How far counts are off at least; each rule has its own deviations beside it."""
        note = "each figure has its deviation beside it, of the noise alone and to first order"
        return {**self.source.error, "note": note}

    @property
    def facts(self) -> Mapping[str, Any]:
        """Which columns are baskets and items, where it is of items."""
        return {"baskets": None if self.baskets is None else list(self.baskets)}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that it will release, without a row."""
        return {"rules": self._table([], [])}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The rules, the surest first."""
        names, found = self.source.measure(salted, entropy)
        rules = associations(found, self.source.basis.k, size=self.size, confidence=self.confidence)
        return {"rules": self._table(rules, names)}

    def _table(self, rules: list[Association], names: list[str]) -> pa.Table:
        columns: dict[str, pa.Array] = {}
        for place in range(self.size - 1):
            given = [names[one.given[place]] if place < len(one.given) else None for one in rules]
            columns[f"if_{place + 1}"] = pa.array(given, pa.string())
        columns["then"] = pa.array([names[one.then] for one in rules], pa.string())
        columns["count"] = pa.array([round(one.both) for one in rules], pa.int64())
        for name in ("support", "confidence", "lift"):
            figures = np.array([getattr(one, name) for one in rules], dtype=float).reshape(-1, 2)
            highest = np.inf if name == "lift" else 1.0
            columns[name] = pa.array(np.round(np.clip(figures[:, 0], 0, highest), 6))
            columns[f"{name}_sd"] = pa.array(np.round(figures[:, 1], 6))
        columns["approximate"] = pa.array([one.approximate for one in rules], pa.bool_())
        return pa.table(columns)


def prepare(
    request: LearningRequest, *, k: object = 100, size: object = 3, confidence: object = 20
) -> Rules:
    """Rules in the k most frequent sets of at most `size` items; `confidence` is in percent."""
    many = whole(k, "k", least=2, most=MOST_K)
    most = whole(size, "size", least=2, most=_MOST_SIZE)
    least = whole(confidence, "confidence", least=0, most=100) / 100
    form = request.schema.form
    if isinstance(form, Items):
        asked = FormRequest(
            dataset=request.dataset,
            schema=request.schema,
            form=form,
            unit=request.unit,
            price=request.price,
        )
        if [one.name for one in request.features] != [form.owner, form.item]:
            raise ParameterError(
                "column_unsuitable",
                f"Rules of {quoted(request.dataset)} are of its items. Leave {option('features')} "
                "out.",
            )
        source = ItemSource(frequent.prepare(asked, k=many, size=most))
        return Rules(source, most, least, (form.owner, form.item))
    return Rules(_row_source(request, many), most, least, None)


def _row_source(request: LearningRequest, k: int) -> RowSource:
    """The baskets that rows of the features are."""
    columns = request.features
    if not 2 <= len(columns) <= _MOST_COLUMNS:
        raise ParameterError(
            "column_unsuitable",
            f"Rules go from columns to others: name 2 to {_MOST_COLUMNS} with "
            f"{option('features')}, not {len(columns)}.",
        )
    axes = tuple(_listed(one) for one in columns)
    items = [
        (place, code)
        for place, (column, axis) in enumerate(zip(columns, axes, strict=True))
        for code, value in enumerate(axis.values.to_pylist())
        if value is not None and (value is True or column.kind is not Kind.BOOLEAN)
    ]
    names = [
        item_text(axes[place].values[code].as_py(), axes[place].column) for place, code in items
    ]
    ways = [PrivBasis(spending=one, unit=request.unit, k=k) for one in spendings(request.price)]
    basis = ways[0] if len(ways) == 1 else min(ways, key=lambda one: one.expected_error(len(items)))
    return RowSource(axes, tuple(items), tuple(names), request.unit, basis)


def _listed(column: Column) -> Listed:
    axis = declared(column)
    if isinstance(axis, Listed):
        return axis
    raise ParameterError(
        "column_unsuitable",
        f"Column {quoted(column.name)} is a range of numbers, of which no rule can be made. "
        "Declare values = [...] or leave it out of the features.",
    )
