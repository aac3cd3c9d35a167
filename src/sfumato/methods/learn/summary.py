"""The table of coefficients as statisticians print it: standard errors, z, p-values, intervals."""

from __future__ import annotations

from dataclasses import dataclass
from math import erfc, sqrt
from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Sequence

NORMAL_95 = 1.959963984540054
"""Half a 95 % interval of a normal error, in standard deviations."""

_TITLES = ("term", "coefficient", "std err", "z", "P>|z|", "[0.025", "0.975]")


@dataclass(frozen=True, repr=False)
class Summary(Shown):
    """Coefficients with standard errors that contain both sampling and the noise of privacy.

    `str` prints the table; `table` has the same numbers. A p-value is that of a normal test of a
    coefficient of 0.
    """

    title: str
    table: pa.Table

    @classmethod
    def of(cls, title: str, terms: Sequence[str], coefficients: pa.Table) -> Summary:
        """Summarise a table with the columns `coefficient`, `sd`, `low` and `high`."""
        values, sds, low, high = (
            coefficients.column(name).to_pylist() for name in ("coefficient", "sd", "low", "high")
        )
        # A coefficient of a column that cannot vary is 0 without error: it has no test.
        z = [value / sd if sd > 0 else 0.0 for value, sd in zip(values, sds, strict=True)]
        columns = [list(terms), values, sds, z, [erfc(abs(score) / sqrt(2)) for score in z],
                   low, high]  # fmt: skip
        names = ("term", "coefficient", "std_error", "z", "p_value", "low", "high")
        return cls(title, pa.table(dict(zip(names, columns, strict=True))))

    def _rows(self) -> list[list[str]]:
        return [
            [row["term"], *(f"{row[name]:.4g}" for name in ("coefficient", "std_error")),
             f"{row['z']:.2f}", f"{row['p_value']:.3f}",
             *(f"{row[name]:.4g}" for name in ("low", "high"))]
            for row in self.table.to_pylist()
        ]  # fmt: skip

    def __str__(self) -> str:
        lines = [list(_TITLES), *self._rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "  ".join([line[0].ljust(widths[0]),
                       *(cell.rjust(wide) for cell, wide in zip(line[1:], widths[1:],
                                                                strict=True))])
            for line in lines
        ]  # fmt: skip
        return "\n".join([self.title, *texts])

    def _card(self) -> Card:
        return Card(self.title, {}, CardTable(_TITLES, self._rows()))
