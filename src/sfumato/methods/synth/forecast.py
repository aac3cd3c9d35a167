"""Before spending: how far noise would take each method off, and whether pairs are worth it.

All of it follows from what is public: the declared domains, the price and the declared number of
rows; where none is declared, it is told for several. What the columns have to do with each other is
private, so that what `independent` loses by not looking at pairs is not told.

Decision `synthetic-rows`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import count_sensitivity
from sfumato.methods.synth import privbayes
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.selection import (
    AIM_COLUMNS_SHARE,
    AUTO_COLUMNS_SHARE,
    MST_CHOICE_SHARE,
    MST_COLUMNS_SHARE,
    ROUND_CHOICE_SHARE,
    cheapest_pairs,
    divided,
    pair_noise,
    suited_method,
)
from sfumato.methods.synth.workbench import mean_noise
from sfumato.report.display import Card, Shown
from sfumato.text import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.schema.unit import Unit
    from sfumato.methods.synth.measurement_log import ColumnSet
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.mechanisms.spending import Spending


SIZES = (1_000, 10_000, 100_000, 1_000_000)
"""The numbers of rows for which it is told where none is declared."""
OPEN_VALUES = 20
"""So many values are supposed of a column whose values are discovered."""

_WHOLE_CHARGE = Fraction(1)
SHARES = {
    "independent": (_WHOLE_CHARGE, Fraction(0)),
    "mst": (MST_COLUMNS_SHARE, (1 - MST_COLUMNS_SHARE) * (1 - MST_CHOICE_SHARE)),
    "aim": (AIM_COLUMNS_SHARE, (1 - AIM_COLUMNS_SHARE) * (1 - ROUND_CHOICE_SHARE)),
    "privbayes": (privbayes.COLUMNS_SHARE, 1 - privbayes.COLUMNS_SHARE - privbayes.CHOICE_SHARE),
}
"""The parts of the charge by which columns and pairs are measured."""


@dataclass(frozen=True)
class MethodForecast:
    """How far noise would take a method's columns and pairs off, as total variation distance."""

    method: str
    rows: int
    one_way: float
    two_way: float | None


@dataclass(frozen=True, repr=False, kw_only=True)
class SynthesisForecast(Shown):
    """What a synthesis would cost, and what each method would be worth; nothing was spent."""

    columns: tuple[str, ...]
    cells: tuple[int, ...]
    open: tuple[str, ...]
    by_quantiles: tuple[str, ...]
    searched: tuple[str, ...]
    """Columns whose bins are to follow atoms and rows."""
    spending: Spending
    unit: Unit
    price: Price
    method: str
    sets: tuple[tuple[str, ...], ...]
    rows: int | None
    lost_constraints: tuple[str, ...] = ()
    """What is said of constraints that cannot be kept."""

    def _card(self) -> Card:
        first, *notes = self.text().splitlines()
        return Card(first, {}, notes=notes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The numbers of rows for which it is told."""
        return SIZES if self.rows is None else (max(self.rows, 1),)

    def suited(self, rows: int) -> str:
        """The method that is worth most for so many rows, by the rule of `auto`."""
        if len(self.columns) < 2:
            return "independent"
        share_per_column = (1 - AUTO_COLUMNS_SHARE) / len(self.columns)
        return suited_method(pair_noise(self._shape, self._noise(share_per_column), rows))

    def methods(self, rows: int) -> list[MethodForecast]:
        """Every method for so many rows."""
        names = SHARES if len(self.columns) > 1 else ("independent",)
        forecasts = [self._forecast_pairs(name, rows) for name in names]
        return [*forecasts, self._forecast_workload(rows)] if self.sets else forecasts

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON-able data."""
        return {
            "method": self.method,
            "columns": list(self.columns),
            "cost": self.price.to_record(),
            "forecast": [
                {
                    "rows": rows,
                    "suited": self.suited(rows),
                    "methods": {
                        method.method: {"one_way": method.one_way, "two_way": method.two_way}
                        for method in self.methods(rows)
                    },
                }
                for rows in self.sizes
            ],
            "notes": self._notes,
        }

    def text(self) -> str:
        """The forecast for people."""
        lines = [f"Cost: {self.price.sentence()}. Nothing was spent."]
        for rows in self.sizes:
            verdict = _VERDICTS[self.suited(rows)] if len(self.columns) > 1 else _ALONE
            lines.append(f"With {rows:,} rows: {verdict}")
            lines += [f"  {method.method}: {_method_text(method)}" for method in self.methods(rows)]
        return "\n".join([*lines, *self._notes])

    @property
    def _notes(self) -> list[str]:
        notes = ["Figures tell noise alone, and not what a method does not measure."]
        if self.rows is None:
            notes.append(
                "How many rows there are is not declared; where everybody may know it, add to the "
                "schema under [[constraints]]: rows = 10000, say."
            )
        if self.by_quantiles:
            notes.append(
                f"Where bins of {', '.join(self.by_quantiles)} end is found by private quantiles, "
                "for a part of the cost."
            )
        if self.searched:
            notes.append(
                f"Values of {', '.join(self.searched)} that many rows share are looked for, and "
                "bins cut where rows crowd, for a part of the cost."
            )
        if self.open:
            names = ", ".join(self.open)
            notes.append(f"Of {names}, {OPEN_VALUES} discovered values each are supposed.")
        return [*notes, *self.lost_constraints]

    @property
    def _shape(self) -> TableShape:
        sizes = (
            size + OPEN_VALUES * (name in self.open)
            for name, size in zip(self.columns, self.cells, strict=True)
        )
        return TableShape(self.columns, tuple(sizes))

    @property
    def _power(self) -> int:
        return 1 if self.spending.epsilon is None else 2

    def _noise(self, share: Fraction) -> float:
        """The mean size of the noise in a cell that a share pays for."""
        return mean_noise(self.spending.noise(count_sensitivity(self.unit, grouped=True), share))

    def _expected_distances(
        self, sets: Sequence[ColumnSet], share: Fraction, rows: int
    ) -> list[float]:
        """How far each set is off if a share measures all, as `measure_sets` divides it."""
        cells = np.array([float(self._shape.cells(columns)) for columns in sets])
        shares = divided(cells ** (2 / (2 + self._power)))
        noise = [self._noise(share * share_of_set) for share_of_set in shares]
        return [min(distance, 1.0) for distance in cells * noise / (2 * rows)]

    def _forecast_pairs(self, name: str, rows: int) -> MethodForecast:
        """A method that chooses pairs: of each column the cheapest is supposed."""
        columns_share, pairs_share = SHARES[name]
        alone = [(column,) for column in self._shape.columns]
        if len(alone) < 2 or not pairs_share:
            return MethodForecast(
                name, rows, _mean(self._expected_distances(alone, _WHOLE_CHARGE, rows)), None
            )
        cheapest = list(dict.fromkeys(cheapest_pairs(self._shape)))
        one_way = _mean(self._expected_distances(alone, columns_share, rows))
        return MethodForecast(
            name, rows, one_way, _mean(self._expected_distances(cheapest, pairs_share, rows))
        )

    def _forecast_workload(self, rows: int) -> MethodForecast:
        """Sets that are named: a column of a set is a sum of its cells."""
        named_sets = [tuple(sorted(map(self.columns.index, names))) for names in self.sets]
        covered = {column for columns in named_sets for column in columns}
        sets = [
            *named_sets,
            *((column,) for column in self._shape.columns if column not in covered),
        ]
        off = dict(zip(sets, self._expected_distances(sets, _WHOLE_CHARGE, rows), strict=True))
        one_way = [
            min(
                error * (self._shape.sizes[column] / self._shape.cells(columns)) ** 0.5
                for columns, error in off.items()
                if column in columns
            )
            for column in self._shape.columns
        ]
        several = [error for columns, error in off.items() if len(columns) > 1]
        return MethodForecast("workload", rows, _mean(one_way), _mean(several) if several else None)


_ALONE = "there is one column, which every method measures alike."
_VERDICTS = {
    "independent": "pairs would drown in noise; 'independent' would be as good as any method.",
    "mst": "some pairs are worth measuring; 'mst' suits.",
    "aim": "pairs stand out of the noise; 'aim' suits.",
}


def _method_text(method: MethodForecast) -> str:
    pairs = (
        "pairs not measured"
        if method.two_way is None
        else f"a measured pair {share(method.two_way)}"
    )
    return f"a column off by {share(method.one_way)}, {pairs}"


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


# Before spending: how far noise would take a parent's and a child's model off.


@dataclass(frozen=True, repr=False)
class LinkedForecast(Shown):
    """What two tables would cost together, and what each method would be worth for either."""

    parent_name: str
    child_name: str
    parent: SynthesisForecast
    child: SynthesisForecast

    def _card(self) -> Card:
        first, *notes = self.text().splitlines()
        return Card(first, {}, notes=notes)

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON-able data: that of the parent, and that of the child in it."""
        return {**self.parent.to_json(), "child": self.child.to_json()}

    def text(self) -> str:
        """The forecast for people."""
        cost, *parent = self.parent.text().splitlines()
        _, *child = self.child.text().splitlines()
        return "\n".join([cost, f"{self.parent_name}:", *parent, f"{self.child_name}:", *child])
