"""Association rules from noisy itemset counts (PrivBasis), and a model that suggests items.

In a table of items each person is a basket. In a plain table each row is a basket, and its items
are "column = value" for each declared value; of a boolean column only the true value is an item.

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


# Rules from noisy supports, with their standard deviations.
#
# For a rule A -> b let X = A and b, N all transactions and n(.) the noisy counts:
#
#     support n(X) / N        confidence n(X) / n(A)        lift n(X) N / (n(A) n(b))
#
# Standard deviations come from the delta method and the covariances of all four counts: to first
# order, the relative deviation of a product of powers is the deviation of the sum of its
# logarithms. This holds if every denominator is many times its own deviation; a rule for which one
# is not is marked `approximate`, and there is no rule if noise alone could be all of n(A). Rules
# are sorted by a lower bound of their confidence (95 %, one-sided), so that a small count that
# noise made large does not come first. The deviations describe the noise alone, not the sampling
# of these people; and the best of many noisy rules are too high on average (selection bias).
#
# Decision `itemsets`.

_LEAST_SET_SDS = 2.0
"""A set must exceed so many standard deviations to give rules."""
_Z_95_ONE_SIDED = 1.64
"""Standard deviations of a one-sided 95 % bound."""
_LINEAR_SDS = 5.0
"""The first order is accurate if each denominator is so many standard deviations."""
_POWERS = {"support": (1, 0, 0, -1), "confidence": (1, -1, 0, 0), "lift": (1, -1, -1, 1)}
"""The powers of n(X), n(A), n(b) and N in each measure."""


class NoisyRatio(NamedTuple):
    """A ratio of counts, and its standard deviation."""

    value: float
    sd: float


class Association(NamedTuple):
    """A rule: baskets with all items of the antecedent often contain the consequent."""

    antecedent: tuple[int, ...]
    consequent: int
    set_count: float
    """How many baskets have all items of the rule."""
    support: NoisyRatio
    confidence: NoisyRatio
    lift: NoisyRatio
    approximate: bool
    """Whether the standard deviations are only rough."""

    @property
    def confidence_bound(self) -> float:
        """A lower 95 % bound of the confidence, by which rules are sorted."""
        return min(self.confidence.value, 1.0) - _Z_95_ONE_SIDED * self.confidence.sd


def associations(
    supports: NoisySupports, k: int, *, size: int, confidence: float
) -> list[Association]:
    """The rules of at least some confidence in the k most frequent sets, best bound first."""
    rules = [
        _rule_to(supports, itemset.items, consequent)
        for itemset in supports.most_frequent(k, size=size)
        if len(itemset.items) > 1 and itemset.estimate >= max(_LEAST_SET_SDS * itemset.sd, 1.0)
        for consequent in sorted(itemset.items)
    ]
    confident = [rule for rule in rules if rule is not None and rule.confidence.value >= confidence]
    return sorted(
        confident,
        key=lambda rule: (
            -rule.confidence_bound,
            -rule.set_count,
            rule.antecedent,
            rule.consequent,
        ),
    )


def _rule_to(supports: NoisySupports, items: Itemset, consequent: int) -> Association | None:
    """The rule from all other items of a set to one; None if noise may be all of n(A)."""
    sets = [items, items - {consequent}, frozenset({consequent}), frozenset[int]()]
    counts = np.array([supports.count(itemset) for itemset in sets])
    # Every count is a denominator, or has its logarithm taken.
    if counts.min() < 1 or counts[1] <= _Z_95_ONE_SIDED * supports.sd(sets[1]):
        return None
    covariances = np.array(
        [[supports.covariance(itemset, second) for second in sets] for itemset in sets]
    )
    figures = {
        name: _figure(counts, covariances, np.array(powers)) for name, powers in _POWERS.items()
    }
    unclear = np.sqrt(np.diag(covariances)[1:]) * _LINEAR_SDS > counts[1:]
    return Association(
        tuple(sorted(items - {consequent})),
        consequent,
        float(counts[0]),
        **figures,
        approximate=bool(unclear.any()),
    )


def _figure(
    counts: np.ndarray[tuple[int], np.dtype[np.float64]],
    covariances: np.ndarray[tuple[int, int], np.dtype[np.float64]],
    powers: np.ndarray[tuple[int], np.dtype[np.int64]],
) -> NoisyRatio:
    value = float(np.prod(counts**powers))
    slopes = powers / counts
    variance = max(float(slopes @ covariances @ slopes), 0.0)
    return NoisyRatio(value, value * variance**0.5)


# The learnt rules as a model, which suggests items to baskets.


class Suggestion(NamedTuple):
    """An item that a basket lacks, and the confidence of the best rule that leads to it."""

    item: str
    confidence: float


class RuleBook(Model):
    """Association rules, the one with the highest lower bound of confidence first.

    In a table of items a row gets the suggestion to its basket. In a plain table a row gets a
    "column = value" of a column whose value is missing in the row.
    """

    @property
    def _rules(self) -> list[tuple[list[str], str, float]]:
        table = self.tables["rules"]
        names = [name for name in table.column_names if name.startswith("if_")]
        return [
            ([row[name] for name in names if row[name] is not None], row["then"], row["confidence"])
            for row in table.to_pylist()
        ]

    def check(self) -> None:
        """Refuse incomplete rules, and baskets that are not two columns."""
        baskets = self.facts["baskets"]
        assert baskets is None or list(baskets) == list(self.features)
        for items, consequent, confidence in self._rules:
            assert items
            assert all(isinstance(item, str) for item in (*items, consequent))
            assert 0 <= confidence <= 1

    def suggest(self, basket: Sequence[str]) -> list[Suggestion]:
        """Suggest items that a basket lacks, by all rules that it meets, best rule first.

        Parameters
        ----------
        basket:
            The items that the basket has, as texts.

        Returns
        -------
        list of Suggestion
            Each suggested item once, with the confidence of the first rule that leads to it.
        """
        held = set(arguments.names(basket, "basket"))
        suggested: dict[str, float] = {}
        for items, consequent, confidence in self._rules:
            if consequent not in held and held.issuperset(items):
                suggested.setdefault(consequent, confidence)
        return [Suggestion(*item) for item in suggested.items()]

    def read(self, rows: pa.Table) -> Mapping[str, pa.Array]:
        """The best suggestion to each row's basket and its confidence; null if there is none."""
        rules = self._rules
        names = sorted({item for items, consequent, _ in rules for item in (*items, consequent)})
        positions = {item: rule for rule, item in enumerate(names)}
        basket_of_row, has, closed = self._held(rows, positions)
        first_rule = np.full(len(has), -1)
        for rule, (items, consequent, _) in enumerate(rules):
            meets = (
                has[:, [positions[item] for item in items]].all(axis=1)
                & ~closed[:, positions[consequent]]
            )
            first_rule[meets & (first_rule < 0)] = rule
        rule_of_row = first_rule[basket_of_row]
        chosen = pa.array(rule_of_row, mask=rule_of_row < 0)
        consequents = pa.array([consequent for _, consequent, _ in rules], pa.string())
        confidences = pa.array([confidence for *_, confidence in rules], pa.float64())
        return {"suggested": consequents.take(chosen), "confidence": confidences.take(chosen)}

    def _held(
        self, rows: pa.Table, positions: Mapping[str, int]
    ) -> tuple[IntArray, Truths, Truths]:
        """The basket of each row, the items of each basket, and the items not to suggest to it."""
        if self.facts["baskets"] is None:
            has, closed = _row_items(rows, positions)
            return np.arange(len(has)), has, closed
        owners, items = (rows.column(name).combine_chunks() for name in self.features)
        coded = owners.dictionary_encode(null_encoding="encode")
        basket_of_row = coded.indices.to_numpy().astype(np.int64)
        has = np.zeros((len(coded.dictionary), len(positions)), dtype=bool)
        distinct = items.dictionary_encode(null_encoding="encode")
        code_of_value = np.array(
            [positions.get(item_text(name), -1) for name in distinct.dictionary.to_pylist()],
            dtype=int,
        )
        codes = code_of_value[distinct.indices.to_numpy()]
        has[basket_of_row[codes >= 0], codes[codes >= 0]] = True
        return basket_of_row, has, has


def _row_items(rows: pa.Table, positions: Mapping[str, int]) -> tuple[Truths, Truths]:
    """The items of each row of a plain table, and all items of the columns that have a value."""
    has = np.zeros((rows.num_rows, len(positions)), dtype=bool)
    closed = np.zeros_like(has)
    for name in rows.column_names:
        coded = rows.column(name).combine_chunks().dictionary_encode(null_encoding="encode")
        codes = coded.indices.to_numpy()
        for code, value in enumerate(coded.dictionary.to_pylist()):
            if value is None:
                continue
            has_value = codes == code
            for item, position in positions.items():
                if item.startswith(f"{_quoted_if_ambiguous(name)} = "):
                    closed[has_value, position] = True
            if (position := positions.get(item_text(value, name), -1)) >= 0:
                has[has_value, position] = True
    return has, closed


def item_text(value: Any, column: str | None = None) -> str:
    """An item as text, as rules contain it."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return (
        text if column is None else f"{_quoted_if_ambiguous(column)} = {_quoted_if_ambiguous(text)}"
    )


def _quoted_if_ambiguous(text: str) -> str:
    """A column or value of an item, in quotes if it contains "=" or quotes itself."""
    return dumps(text, ensure_ascii=False) if "=" in text or '"' in text else text


MODEL = RuleBook
_MOST_SIZE = 6
_MOST_COLUMNS = 100


@dataclass(frozen=True)
class RowSource:
    """Rows of declared columns as baskets, counted by `PrivBasis`."""

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
        """The number of frequent sets."""
        return self.basis.parameters

    def measure(self, salted: SaltedData, entropy: Entropy) -> tuple[list[str], NoisySupports]:
        """The names of the chosen items, and the supports of sets of them."""
        data = salted.data
        counter = BoundedCounter(data.engine, data.table, self.axes, self.unit, salted.salt)
        rows = counter.of([axis.column for axis in self.axes])
        chosen, supports = self.basis.measure(RowSets(rows.codes, rows.counts, self.items), entropy)
        return [self.names[item] for item in chosen.tolist()], supports


@dataclass(frozen=True)
class ItemSource:
    """A table of items in which each person is a basket, counted by `FrequentSets`."""

    sets: FrequentSets

    @property
    def basis(self) -> PrivBasis:
        """The mechanism that selects and counts sets."""
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
        """The number and the largest size of the frequent sets."""
        return self.sets.parameters

    def measure(self, salted: SaltedData, entropy: Entropy) -> tuple[list[str], NoisySupports]:
        """The names of the chosen items, and the supports of sets of them."""
        values, supports = self.sets.measure(FormRows(salted.data, salted.salt), entropy)
        return [item_text(value) for value in values.to_pylist()], supports


@dataclass(frozen=True)
class Rules:
    """Association rules of frequent sets: support, confidence and lift, with standard deviations.

    *Guarantee*: that of `PrivBasis` (and of `FrequentSets` for private items); rules are computed
    from its noisy counts.
    *Sensitivity*: see `PrivBasis`; a person with m rows of a plain table has m baskets.
    *Error*: by the delta method from the covariances of the noise; see `associations`.
    *Edges*: sets and antecedents that noise alone could explain, and rules with a denominator below
    1, are left out, so there may be none. The consequent is one item.
    *Reference*: Li, Qardaji, Su & Cao 2012; Agrawal, Imielinski & Swami 1993 for the rules.
    """

    source: RowSource | ItemSource
    size: int
    confidence: float
    baskets: tuple[str, str] | None
    """The columns of owners and items; None for a plain table."""

    @property
    def event(self) -> Event:
        """What it costs."""
        return self.source.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The number and size of frequent sets, and the lowest confidence."""
        chosen = {"size": self.size, "confidence": self.confidence}
        return {**self.source.parameters, **chosen}

    @property
    def error(self) -> Mapping[str, Any]:
        """A lower bound of the noise on counts; each rule has its own standard deviations."""
        note = "each measure has its standard deviation beside it: of the noise, to first order"
        return {**self.source.error, "note": note}

    @property
    def facts(self) -> Mapping[str, Any]:
        """The columns of owners and items, or None."""
        return {"baskets": None if self.baskets is None else list(self.baskets)}

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The table that it will release, without a row."""
        return {"rules": self._table([], [])}

    def release(self, salted: SaltedData, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count frequent sets with noise, and derive the rules."""
        names, supports = self.source.measure(salted, entropy)
        rules = associations(
            supports, self.source.basis.k, size=self.size, confidence=self.confidence
        )
        return {"rules": self._table(rules, names)}

    def _table(self, rules: list[Association], names: list[str]) -> pa.Table:
        columns: dict[str, pa.Array] = {}
        for index in range(self.size - 1):
            antecedents = [
                names[rule.antecedent[index]] if index < len(rule.antecedent) else None
                for rule in rules
            ]
            columns[f"if_{index + 1}"] = pa.array(antecedents, pa.string())
        columns["then"] = pa.array([names[rule.consequent] for rule in rules], pa.string())
        columns["count"] = pa.array([round(rule.set_count) for rule in rules], pa.int64())
        for name in ("support", "confidence", "lift"):
            figures = np.array([getattr(rule, name) for rule in rules], dtype=float).reshape(-1, 2)
            highest = np.inf if name == "lift" else 1.0
            columns[name] = pa.array(np.round(np.clip(figures[:, 0], 0, highest), 6))
            columns[f"{name}_sd"] = pa.array(np.round(figures[:, 1], 6))
        columns["approximate"] = pa.array([rule.approximate for rule in rules], pa.bool_())
        return pa.table(columns)


def prepare(
    request: LearningRequest, *, k: object = 100, size: object = 3, confidence: object = 20
) -> Rules:
    """Plan rules in the k most frequent sets of at most `size` items; `confidence` in percent."""
    set_count = whole(k, "k", least=2, most=MOST_K)
    largest = whole(size, "size", least=2, most=_MOST_SIZE)
    lowest_confidence = whole(confidence, "confidence", least=0, most=100) / 100
    form = request.schema.form
    if isinstance(form, Items):
        itemset_request = FormRequest(
            dataset=request.dataset,
            schema=request.schema,
            form=form,
            unit=request.unit,
            price=request.price,
        )
        if [column.name for column in request.features] != [form.owner, form.item]:
            raise ParameterError(
                "column_unsuitable",
                f"Rules of {quoted(request.dataset)} are about its items. Leave out "
                f"{option('features')}.",
            )
        source = ItemSource(frequent.prepare(itemset_request, k=set_count, size=largest))
        return Rules(source, largest, lowest_confidence, (form.owner, form.item))
    return Rules(_row_source(request, set_count), largest, lowest_confidence, None)


def _row_source(request: LearningRequest, k: int) -> RowSource:
    """Rows of the features as baskets, with the best basis for the price."""
    columns = request.features
    if not 2 <= len(columns) <= _MOST_COLUMNS:
        raise ParameterError(
            "column_unsuitable",
            f"Rules go from columns to others: name 2 to {_MOST_COLUMNS} with "
            f"{option('features')}, not {len(columns)}.",
        )
    axes = tuple(_listed(column) for column in columns)
    items = [
        (position, code)
        for position, (column, axis) in enumerate(zip(columns, axes, strict=True))
        for code, value in enumerate(axis.values.to_pylist())
        if value is not None and (value is True or column.kind is not Kind.BOOLEAN)
    ]
    names = [
        item_text(axes[position].values[code].as_py(), axes[position].column)
        for position, code in items
    ]
    bases = [
        PrivBasis(spending=column, unit=request.unit, k=k) for column in spendings(request.price)
    ]
    basis = (
        bases[0]
        if len(bases) == 1
        else min(bases, key=lambda column: column.expected_error(len(items)))
    )
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
