"""Marginals of a few yes-or-no columns, from one bit of each person.

The share of people with certain answers in k columns is a sum of Hadamard coefficients: theta_a,
the mean of (-1)^<a, x> over people x, for the 2^k subsets a of those columns. A person draws one of
all T sets of 1 to k columns and reports, by randomized response, whether they have an odd number of
yes in it. Each coefficient is estimated from the people who drew its set and divided by their
number; dividing by the expected n / T would add the noise of that number. Decision `local-privacy`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.draws import draw_events, draw_integers
from sfumato.methods.local.frequency_oracles import odds_of
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.mechanism import (
    CARD_PEOPLE,
    Channel,
    LocalMechanism,
    check_channel_size,
    read_report_count,
)
from sfumato.methods.local.reports import Code, ReportLayout
from sfumato.report.display import Card

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


MOST_COLUMNS = 62
MOST_SETS = 1 << 20


class MarginalOracle(LocalMechanism):
    """Report one bit about a random set of at most `width` columns.

    *Guarantee*: epsilon-LDP for all columns of the person together: the set is drawn independently
    of the answers, and the bit is true with odds of at most e^epsilon.
    *Sensitivity*: None to establish: a person answers yes or no in each column.
    *Error*: a coefficient from n reports has variance (c^2 - theta^2) T / n, where c = (e^epsilon +
    1) / (e^epsilon - 1) and T sets can be drawn; a cell of k columns 2^(-2k) times the sum of those
    of its 2^k - 1 coefficients.
    *Edges*: a marginal with a set that nobody drew cannot be estimated and is refused.
    *Reference*: Cormode, Kulkarni & Srivastava 2018, InpHT.
    """

    name = "marginals"
    counted_once = True

    def __init__(
        self, columns: Sequence[str], *, epsilon: Number | LocalEpsilon, width: int = 2
    ) -> None:
        self.columns = arguments.names(columns, "columns")
        self.width, self.epsilon = arguments.whole(width, "width"), read_epsilon(epsilon)
        count = len(self.columns)
        if len(set(self.columns)) < count or not 1 <= count <= MOST_COLUMNS:
            raise ParameterError(
                "parameter_out_of_range",
                f"columns must name 1 to {MOST_COLUMNS} columns, each of them once.",
                parameter="columns",
            )
        if not 1 <= self.width <= count:
            raise ParameterError(
                "parameter_out_of_range",
                f"width must be between 1 and the number of columns, {count}, not {self.width}.",
                parameter="width",
                given=self.width,
            )
        self.sets = sum(math.comb(count, size) for size in range(1, self.width + 1))
        if self.sets > MOST_SETS:
            raise ParameterError(
                "parameter_out_of_range",
                f"Marginals of {self.width} of {count} columns need {self.sets:,} sets of columns; "
                f"at most {MOST_SETS:,} are allowed. Give a smaller width.",
            )
        self._masks = _masks(count, self.width)
        truth, lie = odds_of(self.epsilon, 2)
        self._truth = Fraction(truth, truth + lie)
        self.layout = ReportLayout((Code("set", self.sets), Code("odd", 2)))
        self.check_claim()

    def _declaration(self) -> dict[str, Any]:
        return {"columns": list(self.columns), "width": self.width}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two people, exactly."""
        return self._truth / (1 - self._truth)

    def channel(self) -> Channel:
        """The matrix of probabilities: rows are people's answers, as binary numbers."""
        people = 1 << len(self.columns)
        check_channel_size(people, 2 * self.sets)
        odd = np.bitwise_count(np.arange(people)[:, None] & self._masks[None, :]) & 1
        near, far = self.ratio.numerator, self.ratio.denominator
        return Channel.of(
            [[weight for bit in row for weight in ((far, near) if bit else (near, far))]
             for row in odd.tolist()]
        )  # fmt: skip

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        people = self._people(values)
        rows = self.layout.empty(len(people))
        drawn = draw_integers(self.sets, len(people), entropy)
        odd = np.bitwise_count(people & self._masks[drawn]) & 1
        rows["set"] = drawn
        rows["odd"] = odd ^ draw_events(1 - self._truth, len(people), entropy)
        return rows

    def _people(self, values: object) -> IntArray:
        """Each person's answers as the bits of a number."""
        if isinstance(values, pa.Table):
            lacking = [name for name in self.columns if name not in values.column_names]
            if lacking:
                raise ParameterError(
                    "parameter_type_wrong",
                    f"values must have a column for each of {', '.join(self.columns)}.",
                    parameter="values",
                )
            values = np.column_stack([values[name].to_numpy() for name in self.columns])
        try:
            answers = np.atleast_2d(np.asarray(values)).astype(np.float64)
        except (TypeError, ValueError):
            answers = np.full((1, 1), np.nan)
        column_count = len(self.columns)
        if (
            answers.ndim != 2
            or answers.shape[1] != column_count
            or not np.isin(answers, (0, 1)).all()
        ):
            raise ParameterError(
                "parameter_type_wrong",
                f"values must be a row of {column_count} answers for each person, each of them 0 "
                "or 1.",
                parameter="values",
            )
        return np.asarray(answers.astype(np.int64) @ (1 << np.arange(column_count)))

    @property
    def _factor(self) -> float:
        """c, the figure that a report of -1 or 1 stands for."""
        return float(1 / (2 * self._truth - 1))

    def variance(self, n: int) -> float:
        """The largest variance of a cell of `width` columns from n reports.

        It is that of a marginal whose cells are all equal.
        """
        size = 1 << self.width
        return self._factor**2 * self.sets / read_report_count(n) * (size - 1) / size**2

    def marginal(self, sketch: ReportSketch, columns: Sequence[str]) -> pa.Table:
        """Estimate the marginal of some columns.

        Parameters
        ----------
        sketch : ReportSketch
            The sums of the reports.
        columns : list of str
            1 to `width` of the declared columns.

        Returns
        -------
        pyarrow.Table
            A row for each combination of answers: the columns, share and sd. Shares are unbiased
            and sum to 1; a rare one may come out below 0.

        Raises
        ------
        ParameterError
            If the columns are not among the declared ones.
        SourceError
            If the sketch is of another mechanism, damaged, or without reports on some set.
        """
        names = arguments.names(columns, "columns")
        unknown = [name for name in names if name not in self.columns]
        if unknown or not 1 <= len(set(names)) == len(names) <= self.width:
            raise ParameterError(
                "parameter_out_of_range",
                f"columns must be 1 to {self.width} of {', '.join(self.columns)}.",
                parameter="columns",
            )
        cells, shares, spread = self._table(self._own(sketch), names)
        answers: dict[str, Any] = {name: cells[:, at] for at, name in enumerate(names)}
        return pa.table({**answers, "share": shares, "sd": spread})

    def estimate(self, sketch: ReportSketch) -> pa.Table:
        """Estimate all marginals of `width` columns: columns, answers, share and sd."""
        self._own(sketch)
        columns: list[list[str]] = []
        answers: list[list[int]] = []
        shares, spreads = [], []
        for names in combinations(self.columns, self.width):
            cells, share, spread = self._table(sketch, names)
            columns += [list(names)] * len(cells)
            answers += cells.tolist()
            shares.append(share)
            spreads.append(spread)
        facts = {"columns": columns, "answers": answers}
        return pa.table({**facts, "share": np.concatenate(shares), "sd": np.concatenate(spreads)})

    def _table(self, sketch: ReportSketch, names: Sequence[str]) -> tuple[Any, Any, Any]:
        """The cells of a marginal, their shares and their standard deviations."""
        positions = [self.columns.index(name) for name in names]
        size = 1 << len(positions)
        inner = np.arange(size)
        masks = ((inner[:, None] >> np.arange(len(positions)) & 1) << np.array(positions)).sum(
            axis=1
        )
        order = np.argsort(self._masks)
        indices = order[np.searchsorted(self._masks, masks[1:], sorter=order)]
        even, odd = sketch.tally[indices].T.astype(np.float64)
        drawn = even + odd
        if (drawn == 0).any():
            raise SourceError(
                "estimate_not_possible",
                f"Nobody reported on some set of the columns {', '.join(names)}, so their table "
                "cannot be estimated. Collect more reports, or declare fewer columns.",
            )
        theta = np.append(1.0, self._factor * (even - odd) / drawn)
        spread = (self._factor**2 - np.minimum(theta[1:] ** 2, 1.0)) / drawn
        signs = 1 - 2.0 * (np.bitwise_count(inner[:, None] & inner[None, :]) & 1)
        cells = inner[:, None] >> np.arange(len(positions)) & 1
        shares = signs @ theta / size
        return cells, shares, np.full(size, math.sqrt(spread.sum()) / size)

    def _card(self) -> Card:
        line = (
            f"{self.name} of {self.width} of {len(self.columns)} columns at epsilon "
            f"{self.epsilon}, {self.layout.dtype.itemsize} bytes a report"
        )
        facts = {
            "columns": ", ".join(self.columns),
            "width": self.width,
            "epsilon": str(self.epsilon),
            f"sd of a cell from {CARD_PEOPLE:,} reports": math.sqrt(self.variance(CARD_PEOPLE)),
        }
        return Card(line, facts)


def _masks(columns: int, width: int) -> IntArray:
    """All sets of 1 to `width` columns as binary numbers, small ones first."""
    return np.array(
        [
            sum(1 << column for column in chosen)
            for size in range(1, width + 1)
            for chosen in combinations(range(columns), size)
        ],
        dtype=np.int64,
    )
