"""Association rules: what people who have some items have besides, by PrivBasis.

Of a table of items each person is a basket. Of a plain table each row is one, and its items are
"column = value" for each declared value; of truths the true ones alone.

Decision `itemsets`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.data.counting.axes import Listed, declared
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.row_forms import Items
from sfumato.errors import ParameterError, option
from sfumato.methods.itemsets import frequent
from sfumato.methods.itemsets.privbasis import MOST_K, PrivBasis
from sfumato.methods.itemsets.profiles import RowSets
from sfumato.methods.learn.associations import associations
from sfumato.methods.learn.rule_book import RuleBook, item_text
from sfumato.methods.options import whole
from sfumato.methods.publish.form_kinds import FormRequest, FormRows
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.itemsets.frequent import FrequentSets
    from sfumato.methods.itemsets.supports import NoisySupports
    from sfumato.methods.learn.associations import Association
    from sfumato.methods.learn.request import LearningRequest
    from sfumato.methods.method import SaltedData
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

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
