"""Multiplicative weights: learn a table from noisy answers to queries that it answers badly.

Classes of queries: ranges, cells of marginals, parities. Tables are arrays of shape (runs, codes of
each column), so that many runs are answered at once. Decision `selections-in-publications`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from sfumato.data.schema.unit import Sensitivity, sum_sensitivity
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import CellsMethod, Domain
from sfumato.methods.publish.measurement import noise_name
from sfumato.methods.publish.postprocess import caveat, check, postprocess
from sfumato.privacy.accounting.events import Composed, Repeated
from sfumato.privacy.estimation.boxes import box_sums
from sfumato.privacy.mechanisms.selection import Exponential
from sfumato.privacy.mechanisms.sparse_vector import ABOVE, SparseVector
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.publish.request import Request
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.mechanisms.spending import Noise, Spending
    from sfumato.privacy.noise.entropy import Entropy


# The largest table, the most rounds, and the most queries that the sparse vector judges one by one.
MAX_CELLS = 1 << 20
MAX_ITERATIONS = 1000
MAX_JUDGED = 1 << 14
DEFAULT_ITERATIONS = 10
CLASSES = ("ranges", "marginals", "parities")


def prepare(
    request: Request,
    *,
    iterations: object = None,
    queries: object = None,
    way: object = None,
    iterate: object = None,
    selection: object = None,
) -> Mwem:
    """Read the class of queries, the number of rounds, the released table and the selection."""
    check(request.postprocess)
    domain = Domain(request.axes)
    sizes = tuple(axis.size for axis in request.axes)
    if prod(sizes) > MAX_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"{' x '.join(request.columns)} has {prod(sizes):,} cells; multiplicative weights take "
            f"at most {MAX_CELLS:,}. Take fewer columns or a coarser step.",
        )
    query_class = _queries(request, sizes, queries, way)
    rounds = (
        DEFAULT_ITERATIONS
        if iterations is None
        else options.whole(iterations, "iterations", least=1, most=MAX_ITERATIONS)
    )
    iterate_name = options.choice(iterate or "last", "iterate", ("average", "last"))
    chosen = options.choice(
        selection or "exponential", "selection", ("exponential", "sparse-vector")
    )
    if chosen == "sparse-vector" and len(query_class) > MAX_JUDGED:
        raise ParameterError(
            "problem_too_large",
            f"There are {len(query_class):,} queries; the sparse vector judges at most "
            f"{MAX_JUDGED:,}. Take selection 'exponential' or give a smaller workload.",
        )
    candidates = [
        Mwem(request, domain, query_class, rounds, iterate_name, chosen, spending)
        for spending in spendings(request.price)
    ]
    return min(candidates, key=lambda candidate: candidate.noise.variance)


def _queries(request: Request, sizes: tuple[int, ...], queries: object, way: object) -> Queries:
    """Return the class of queries; ranges are those of the request, else all dyadic ones."""
    name = options.choice(queries or "ranges", "queries", CLASSES)
    if name == "ranges":
        if request.boxes is None:
            return RangeQueries.dyadic(sizes)
        if len(request.boxes):
            return RangeQueries(sizes, request.boxes)
        raise ParameterError("workload_invalid", "The workload has no ranges. Give at least one.")
    most = len(sizes) if name == "marginals" else ParityQueries(sizes, 1).digits
    at_most = min(2, most) if way is None else options.whole(way, "way", least=1, most=most)
    return MarginalQueries(sizes, at_most) if name == "marginals" else ParityQueries(sizes, at_most)


# The most queries of a class.
MAX_QUERIES = 1 << 20


class Queries(Protocol):
    """Linear queries with weights 0 and 1, or 1 and -1 where `signed`."""

    @property
    def name(self) -> str:
        """The name of the class in the parameters of a release."""
        ...

    @property
    def signed(self) -> bool:
        """Whether weights are 1 and -1."""
        ...

    def __len__(self) -> int: ...

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every query of every table: (runs, queries). Exact for whole numbers below 2^53."""
        ...

    def weights(self, chosen: IntArray) -> FloatArray:
        """Return the weight of every cell in one query for each run: the shape of the tables."""
        ...


@dataclass(frozen=True)
class RangeQueries:
    """The number of rows in boxes of inclusive codes."""

    sizes: tuple[int, ...]
    boxes: IntArray
    name, signed = "ranges", False

    @classmethod
    def dyadic(cls, sizes: tuple[int, ...]) -> RangeQueries:
        """Blocks of 1, 2, 4, ... codes of each column, in all combinations, large ones first.

        If these are too many, the smallest blocks are left out.
        """
        smallest = 0
        while prod(len(_dyadic(size, smallest)) for size in sizes) > MAX_QUERIES:
            smallest += 1
        ends = [_dyadic(size, smallest) for size in sizes]
        grid = np.indices([len(column) for column in ends]).reshape(len(sizes), -1)
        boxes = np.stack(
            [column_ends[indices] for column_ends, indices in zip(ends, grid, strict=True)], axis=1
        )
        cells = (boxes[:, :, 1] - boxes[:, :, 0] + 1).prod(axis=1)
        return cls(sizes, boxes[np.argsort(-cells, kind="stable")])

    def __len__(self) -> int:
        return len(self.boxes)

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every range of every table."""
        return np.stack([box_sums(table, self.boxes) for table in cells])

    def weights(self, chosen: IntArray) -> FloatArray:
        """1 inside the range, 0 outside."""
        inside = np.ones((len(chosen), *self.sizes), dtype=bool)
        for column, size in enumerate(self.sizes):
            codes = np.arange(size)
            low, high = self.boxes[chosen, column].T[:, :, None]
            inside &= _along((low <= codes) & (codes <= high), column, len(self.sizes))
        return inside.astype(np.float64)


@dataclass(frozen=True)
class MarginalQueries:
    """The cells of the marginals of all sets of at most `way` columns."""

    sizes: tuple[int, ...]
    way: int
    name, signed = "marginals", False

    def __post_init__(self) -> None:
        _check_number(len(self))

    @cached_property
    def sets(self) -> list[tuple[int, ...]]:
        """The sets of columns, small ones first."""
        columns = range(len(self.sizes))
        return [
            column_set
            for size in range(1, self.way + 1)
            for column_set in combinations(columns, size)
        ]

    @cached_property
    def _firsts(self) -> IntArray:
        """The index of the first query of each set, and last the number of all queries."""
        lengths = [prod(self.sizes[column] for column in column_set) for column_set in self.sets]
        return np.cumsum([0, *lengths])

    def __len__(self) -> int:
        return int(self._firsts[-1])

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every cell of every marginal, set by set."""
        columns = range(len(self.sizes))
        sums = [
            cells.sum(axis=tuple(column + 1 for column in columns if column not in column_set))
            for column_set in self.sets
        ]
        flat = [column_set.reshape(len(cells), -1) for column_set in sums]
        return np.concatenate(flat, axis=1).astype(np.float64)

    def weights(self, chosen: IntArray) -> FloatArray:
        """1 in the cells that have all codes of the query, 0 elsewhere."""
        inside = np.ones((len(chosen), *self.sizes), dtype=bool)
        set_index = np.searchsorted(self._firsts, chosen, side="right") - 1
        for number, columns in enumerate(self.sets):
            runs = np.flatnonzero(set_index == number)
            cell = chosen[runs] - self._firsts[number]
            codes = np.unravel_index(cell, [self.sizes[column] for column in columns])
            for column, code in zip(columns, codes, strict=True):
                met = code[:, None] == np.arange(self.sizes[column])
                inside[runs] &= _along(met, column, len(self.sizes))
        return inside.astype(np.float64)


@dataclass(frozen=True)
class ParityQueries:
    """Parities of 1 to `way` binary digits: rows with an even number of 1s less all other rows.

    The digits are those of the codes of all columns in binary; a column of two codes has one.
    """

    sizes: tuple[int, ...]
    way: int
    name, signed = "parities", True

    def __post_init__(self) -> None:
        _check_number(sum(comb(self.digits, size) for size in range(1, self.way + 1)))

    @cached_property
    def _widths(self) -> list[int]:
        return [(size - 1).bit_length() for size in self.sizes]

    @property
    def digits(self) -> int:
        """The number of binary digits of the codes of a cell."""
        return sum(self._widths)

    @cached_property
    def masks(self) -> IntArray:
        """The digits of each query as a bit mask; fewer digits first."""
        return np.array(
            [
                sum(1 << digit for digit in chosen)
                for size in range(1, self.way + 1)
                for chosen in combinations(range(self.digits), size)
            ],
            dtype=np.int64,
        )

    def __len__(self) -> int:
        return len(self.masks)

    def answers(self, cells: NDArray[Any]) -> FloatArray:
        """Every parity of every table, by the fast Walsh-Hadamard transform."""
        room = [
            (0, (1 << width) - size) for size, width in zip(self.sizes, self._widths, strict=True)
        ]
        table = np.pad(cells, [(0, 0), *room]).astype(np.float64).reshape(len(cells), -1)
        for digit in range(self.digits):
            pairs = table.reshape(len(cells), -1, 2, 1 << digit)
            even, odd = pairs[:, :, 0], pairs[:, :, 1]
            table = np.stack([even + odd, even - odd], axis=2)
        return table.reshape(len(cells), -1)[:, self.masks]

    def weights(self, chosen: IntArray) -> FloatArray:
        """1 where an even number of the query's digits are 1, else -1."""
        codes = np.zeros(self.sizes, dtype=np.int64)
        for column, (size, width) in enumerate(zip(self.sizes, self._widths, strict=True)):
            codes = (codes << width) | _along(np.arange(size)[None], column, len(self.sizes))[0]
        masks = self.masks[chosen].reshape(-1, *[1] * len(self.sizes))
        return np.asarray(1.0 - 2.0 * (np.bitwise_count(codes & masks) & 1))


def _dyadic(size: int, smallest: int) -> IntArray:
    """The ends of dyadic blocks of at least 2^smallest codes; the last of a length may be short."""
    levels = range(smallest, max((size - 1).bit_length(), smallest) + 1)
    lows = [np.arange(0, size, 1 << level) for level in levels]
    ends = [
        np.stack([low, np.minimum(low + (1 << exponent), size) - 1], axis=1)
        for low, exponent in zip(lows, levels, strict=True)
    ]
    return np.unique(np.concatenate(ends), axis=0)


def _along(rows: NDArray[Any], column: int, dimensions: int) -> NDArray[Any]:
    """Reshape an array (runs, codes) so that the codes lie along the axis of a column."""
    shape = [rows.shape[0], *[1] * dimensions]
    shape[column + 1] = rows.shape[1]
    return rows.reshape(shape)


def _check_number(queries: int) -> None:
    if not 1 <= queries <= MAX_QUERIES:
        raise ParameterError(
            "problem_too_large",
            f"There would be {queries:,} queries; from 1 to {MAX_QUERIES:,} are possible. Take "
            "fewer columns or a smaller way.",
        )


@dataclass
class Learner:
    """A table for each run, its noisy answers, and the sum of its tables after each answer."""

    queries: Queries
    tables: FloatArray
    totals: FloatArray
    chosen: IntArray
    measured: FloatArray
    answer_counts: IntArray
    sums: FloatArray
    replays: int = 0
    """The number of times that all answers are applied again after a new one."""

    @classmethod
    def uniform(
        cls, queries: Queries, shape: tuple[int, ...], noisy: NDArray[Any], rounds: int
    ) -> Learner:
        """Start with uniform tables of these noisy totals, and room for `rounds` answers."""
        runs = shape[0]
        totals = np.maximum(noisy.astype(np.float64), 1.0).reshape(-1, *[1] * (len(shape) - 1))
        tables = np.full(shape, totals / np.prod(shape[1:]))
        return cls(
            queries,
            tables,
            totals,
            np.zeros((runs, rounds), dtype=np.int64),
            np.zeros((runs, rounds)),
            np.zeros(runs, dtype=np.int64),
            np.zeros(shape),
        )

    @property
    def average(self) -> FloatArray:
        """The average of the tables after each answer; the uniform table before any answer."""
        answer_counts = self.answer_counts.reshape(self.totals.shape)
        return np.where(answer_counts > 0, self.sums / np.maximum(answer_counts, 1), self.tables)

    def guesses(self) -> IntArray:
        """Return the answers of the tables to all queries, rounded to whole rows."""
        return np.asarray(np.rint(self.queries.answers(self.tables)), dtype=np.int64)

    def update(self, runs: IntArray, chosen: IntArray, measured: NDArray[Any]) -> None:
        """Update the tables of some runs by the noisy answer to one query each."""
        self.chosen[runs, self.answer_counts[runs]] = chosen
        self.measured[runs, self.answer_counts[runs]] = measured.astype(np.float64)
        self.answer_counts[runs] += 1
        if not self.replays:
            self._reweight(runs, self.answer_counts[runs] - 1)
        for _ in range(self.replays):
            for turn in range(int(self.answer_counts[runs].max())):
                runs_with_answer = runs[self.answer_counts[runs] > turn]
                self._reweight(runs_with_answer, np.full(len(runs_with_answer), turn))
        self.sums[runs] += self.tables[runs]

    def _reweight(self, runs: IntArray, turns: IntArray) -> None:
        """A(x) *= exp(q(x) (m - q(A)) / (2 n)), then back to the total n."""
        weights = self.queries.weights(self.chosen[runs, turns])
        tables, totals = self.tables[runs], self.totals[runs]
        axes = tuple(range(1, tables.ndim))
        guess = (weights * tables).sum(axis=axes, keepdims=True)
        # Every true answer lies within these bounds, and the exponent stays between -1 and 1.
        lowest = -totals if self.queries.signed else np.zeros_like(totals)
        answer = np.clip(self.measured[runs, turns].reshape(totals.shape), lowest, totals)
        tables *= np.exp(weights * ((answer - guess) / (2 * totals)))
        self.tables[runs] = tables * (totals / tables.sum(axis=axes, keepdims=True))


# The share of the price for the number of rows, which is private.
TOTAL_SHARE = Fraction(1, 20)

# How often each round applies all answers so far, for the last table.
REPLAYS = 10

# How often the sparse vector judges all queries.
PASSES = 2


@dataclass(frozen=True)
class Mwem(CellsMethod):
    """Start from a uniform table; in each round, update it by a query that it answers badly.

    The update is A(x) *= exp(q(x) (m - q(A)) / (2 n)) with the noisy answer m, then A is brought
    back to the noisy total n.

    *Guarantee*: the price in full: 1/20 for the total n, and of the rest half for choosing queries
    and half for answering them, in equal parts for each of T rounds.
    *Sensitivity*: one person of m rows moves the answer of a query with weights 0 and 1 by m, and
    that of a parity by m, or by 2 m where people are replaced; so too the score |q - q(A)|, in
    which q(A) follows from earlier releases.
    *Error*: no closed form. With probability 1 - beta the average of the tables answers no query
    worse than 2 n sqrt(log(cells) / T) plus the bounds of choice, answer and total (`error` gives
    both parts). The last table, updated by all answers so far several times in each round, is
    usually far better, but without a proven bound.
    *Edges*: missing values are cells like others, after the largest code. The table is positive
    and sums to n, at least 1. Rounding q(A) to whole rows for the choice loses half a row.
    *Reference*: Hardt, Ligett & McSherry 2012, Figure 1 and Theorem 2.2; Hardt & Rothblum 2010 for
    choosing by the sparse vector.
    """

    table: ClassVar[str] = "mwem"
    request: Request
    domain: Domain
    queries: Queries
    iterations: int
    iterate: str
    selection: str
    spending: Spending

    @property
    def _share(self) -> Fraction:
        """The share of the price of all choices, and that of all answers."""
        return (1 - TOTAL_SHARE) / 2

    @cached_property
    def sensitivity(self) -> Sensitivity:
        """The largest change of any one query's answer by one person."""
        return sum_sensitivity(self.request.unit, -1 if self.queries.signed else 0, 1)

    @cached_property
    def total_noise(self) -> Noise:
        """The noise of the number of rows."""
        return self.spending.noise(sum_sensitivity(self.request.unit, 1, 1), TOTAL_SHARE)

    @cached_property
    def noise(self) -> Noise:
        """The noise of each answer."""
        return self.spending.noise(self.sensitivity, self._share / self.iterations)

    @cached_property
    def choice(self) -> Exponential | SparseVector:
        """The mechanism that chooses queries: for each round, or once for all rounds."""
        if self.selection == "exponential":
            return Exponential(
                epsilon=self.spending.choice_epsilon(self._share / self.iterations),
                candidates=len(self.queries),
                sensitivity=self.sensitivity.l1,
            )
        return SparseVector(
            epsilon=self.spending.pure_epsilon(self._share),
            cutoff=self.iterations,
            sensitivity=self.sensitivity.l1,
        )

    @property
    def event(self) -> Event:
        """The privacy cost of the release."""
        choices: Event = self.choice.event
        if isinstance(self.choice, Exponential):
            choices = Repeated(choices, self.iterations)
        answers = Repeated(self.noise.event, self.iterations)
        return Composed((self.total_noise.event, choices, answers))

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The choices of the method, in JSON form."""
        return {
            "iterations": self.iterations,
            "queries": f"{len(self.queries)} {self.queries.name}",
            "iterate": self.iterate,
            "selection": self.selection,
            "noise": noise_name(self.noise),
        }

    @property
    def error(self) -> Mapping[str, Any]:
        """The noise of each answer, and for the average the bound of the theorem."""
        stated: dict[str, Any] = {
            "answer": {"sd": self.noise.stddev},
            "total": {"sd": self.total_noise.stddev},
        }
        note = "no closed form is known; the error depends on the data"
        if self.iterate == "average" and isinstance(self.choice, Exponential):
            tail_probability = 0.05 / (2 * self.iterations + 1)
            bounds = self.choice.bound(tail_probability) + self.noise.bound(tail_probability)
            stated["largest95"] = {
                "rows": bounds + 4 * self.total_noise.bound(tail_probability) + 1,
                "of_total": 2 * math.sqrt(math.log(self._cells) / self.iterations),
            }
            note = "no query is worse than `rows` and the share `of_total` of all rows together"
        return {**stated, "note": f"{note}; {caveat(self._steps)}" if self._steps else note}

    @property
    def _cells(self) -> int:
        return math.prod(axis.size for axis in self.domain.axes)

    @property
    def _steps(self) -> tuple[str, ...]:
        return self.request.postprocess

    def release(self, counter: Counter, entropy: Entropy) -> Mapping[str, pa.Table]:
        """Count with noise: one row for every cell."""
        learnt = self.learn(counter.of(self.request.columns).dense()[None], entropy)[0]
        if self._steps:
            learnt = postprocess(learnt, self._steps)
        inner = learnt[tuple(slice(size) for size in self.domain.shape)]
        return {"mwem": self.domain.table(inner, learnt[self.domain.missing_codes])}

    def learn(self, counts: IntArray, entropy: Entropy) -> FloatArray:
        """Return the table learnt from each of some tables of counts (runs, codes of each column).

        Cells are clamped so that all of them together stay within 2^53: answers are then exact as
        floats, and clamping does not increase the sensitivity. The noisy total is clamped too.
        """
        counts = np.minimum(counts, (1 << 53) // self._cells)
        exact = np.rint(self.queries.answers(counts)).astype(np.int64)
        noisy = self.total_noise.steps(counts.reshape(len(counts), -1).sum(axis=1), entropy)
        noisy = np.clip(noisy, 1, 1 << 53)
        learner = Learner.uniform(self.queries, counts.shape, noisy, self.iterations)
        learner.replays = REPLAYS if self.iterate == "last" else 0
        for runs, chosen in self._choices(exact, learner, entropy):
            learner.update(runs, chosen, self.noise.steps(exact[runs, chosen], entropy))
        return learner.average if self.iterate == "average" else learner.tables

    def _choices(
        self, exact: IntArray, learner: Learner, entropy: Entropy
    ) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the runs that get an answer, and the chosen query of each."""
        all_runs = np.arange(len(exact))
        if isinstance(self.choice, Exponential):
            for _ in range(self.iterations):
                scores = np.abs(exact - learner.guesses())
                yield all_runs, self.choice.sample(scores, entropy)
            return
        # An error is worth an answer if it exceeds the largest noise expected among all queries.
        threshold = round(float(self.choice.query_scale) * math.log(len(self.queries) + 1))
        session = self.choice.start(threshold, entropy, runs=len(exact))
        guesses = learner.guesses()
        for query in [*range(len(self.queries))] * PASSES:
            verdicts = session.ask(np.abs(exact[:, query] - guesses[:, query])).verdicts
            runs = np.flatnonzero(verdicts == ABOVE)
            if len(runs):
                yield runs, np.full(len(runs), query)
                guesses = learner.guesses()
