"""Streams: charged as a whole before the first step, then stepped period by period.

The charge is for all steps together. The answer stored under it is the state before the first step,
which is never shown. Each step draws entropy of its own, only under a charge whose answer is
stored, and its words are remembered until the step is done. Decision `streams`.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from secrets import token_hex
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from sfumato import arguments
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Values
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import LedgerError, ParameterError
from sfumato.methods.method import Plan, text_limits
from sfumato.methods.stream.catalogue import prepare
from sfumato.methods.stream.request import StreamRequest
from sfumato.privacy.ledger.receipt import this_process
from sfumato.privacy.ledger.records import Amendment
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.report.display import Card, CardTable, Shown
from sfumato.vault.session import Offer, Session

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.data.engines.malformed_cells import TextLimit
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.method import Dataset
    from sfumato.methods.stream.method import State, StepFigures, StreamMethod
    from sfumato.methods.stream.request import Participation
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.ledger.records import BookState
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.vault.answer import Answer
    from sfumato.vault.session import AskerOf, Asking, Facts


_BETA = 0.05
"""One minus the confidence of `bound95`."""
_LATE = 1024
"""The late step at which the error of a stream without end is shown."""


@dataclass(frozen=True, repr=False)
class StreamPlan(Plan):
    """The plan of a whole stream: charged before the first step."""

    title: str
    dataset: str
    request: StreamRequest
    method: StreamMethod
    by: str | None = None
    """The column whose values are the cells."""
    values: tuple[Any, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
    """Further parameters by name, such as the days of a feed."""
    columns: tuple[Column, ...] = ()
    """The columns of the person and of the cell."""

    name = "stream"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set it counts."""
        return (self.dataset,)

    @property
    def event(self) -> Event:
        """The cost of all steps together."""
        return self.method.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines the answer."""
        request = self.request
        return {
            **dict(self.asked),
            "stream": self.title,
            "cells": self.by,
            "values": [str(value) for value in self.values],
            "periods": request.periods,
            "window": request.window,
            "days": request.days,
            "cost": request.price.to_record(),
            "unit": request.unit.sentence(),
            "method": {"kind": self.method.name, **self.method.parameters},
        }

    def of(self, plan: Plan) -> Plan:
        """The plan itself: each step reads its own rows, so no subset is chosen here."""
        return plan

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """The state before the first step, which is never shown; no row is read for it."""
        del datasets
        begun = json.dumps(self.method.begin(entropy), allow_nan=False)
        return Release(
            {"state": pa.table({"state": [begun]})},
            self.guarantee,
            Provenance(self.name, self.parameters, fingerprint=""),
            {},
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all steps together."""
        request = self.request
        price = request.price.charged(self.event)
        kind, _, parameters = price.promise(request.unit, days=request.days)
        return Guarantee(kind, f"{price.sentence()}. {request.people.sentence()}", parameters)

    def table(self, values: object) -> pa.Table:
        """The figures of a step with their cells, as a table."""
        rows = pa.array(values)
        if self.by is None:
            return pa.table({"rows": rows})
        return pa.table({self.by: pa.array(self.values), "rows": rows})

    def step_error(self, stddev: list[float]) -> dict[str, dict[str, float]]:
        """The standard deviation and the 95 % bound of a step's figures."""
        # A sum of Gaussian noises is sub-Gaussian: P(|X| > t) <= 2 exp(-t^2 / 2 sd^2). For other
        # noise only Chebyshev holds: P(|X| > t) <= sd^2 / t^2.
        sd = max(stddev)
        gaussian = self.method.parameters.get("noise") == "gaussian"
        tail = math.sqrt(2 * math.log(2 / _BETA)) if gaussian else 1 / math.sqrt(_BETA)
        return {"rows": {"sd": sd, "bound95": sd * tail}}

    def expected(self) -> dict[str, float] | None:
        """The standard deviation of the first step and of the last or a late one, if known."""
        last = self.request.periods or _LATE
        variances = {step: self.method.variance(step) for step in (1, last)}
        return {
            f"step {step:,}": math.sqrt(variance)
            for step, variance in variances.items()
            if variance is not None
        } or None


@dataclass(frozen=True)
class Reached:
    """The progress of a stream: the number of its last step, its state, and the step's figures."""

    step: int
    state: State
    figures: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Arrival:
    """The data of one period: counts of each cell, or rows by person and cell."""

    counts: IntArray
    people: list[Any]
    """The different people; none where counts came, or where every row is one of its own."""
    rows: IntArray
    """By row the index of its person in `people`, and of its cell; -1 for no declared cell."""

    @classmethod
    def of_counts(cls, counts: IntArray) -> Arrival:
        """Counts that are bounded already, or of which every row is one of its own."""
        return cls(counts.astype(np.int64), [], np.empty((2, 0), dtype=np.int64))

    @classmethod
    def of_people(
        cls, people: pa.ChunkedArray | pa.Array, cells: IntArray, cell_count: int
    ) -> Arrival:
        """Rows by person and cell, in the order in which they are counted.

        Rows of nobody, whose person is missing or NaN, are left out.
        """
        if isinstance(people, pa.ChunkedArray):
            people = people.combine_chunks()
        coded = people.dictionary_encode()
        # NaN differs from itself: whose person is NaN is nobody's row, as whose person is missing.
        names = [None if name != name else name for name in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy()
        nobody = [-1, *(code for code, name in enumerate(names) if name is None)]
        is_somebodys = ~np.isin(codes, nobody)
        rows = np.stack([codes[is_somebodys], cells[is_somebodys]]).astype(np.int64)
        return cls(np.zeros(cell_count, dtype=np.int64), names, rows)

    def bounded(self, used: IntArray, people: Participation) -> tuple[IntArray, IntArray]:
        """Bound the rows by person; return the count of each cell, and the use by each person.

        `used` has by person the rows that were counted before, or the periods where `days` bounds
        them. Of each person the first rows are counted, as many as are left to the person.
        """
        if not self.people:
            return self.counts, used
        most, days = people.unit.max_rows, people.days
        # Rows that are left in all, or, where periods are bounded, the rows of one period as long
        # as the person has a period left.
        allowance = np.maximum(most - used, 0) if days is None else np.where(used < days, most, 0)
        codes, cells = self.rows
        is_counted = _turns(codes) < allowance[codes]
        rows_of_people = np.bincount(codes[is_counted], minlength=len(self.people))
        # A row outside every declared cell is used up too, so that what is left to a person does
        # not depend on the cells of the rows.
        after = used + (rows_of_people if days is None else rows_of_people > 0)
        counts = np.bincount(cells[is_counted & (cells >= 0)], minlength=len(self.counts))
        return counts.astype(np.int64), after.astype(np.int64)

    def equals(self, other: Arrival) -> bool:
        """Whether two periods have the same data in the same order."""
        return (
            np.array_equal(self.counts, other.counts)
            and self.people == other.people
            and np.array_equal(self.rows, other.rows)
        )


def _turns(people: IntArray) -> IntArray:
    """By row how many rows of the same person stand before it."""
    row_count = len(people)
    order = np.argsort(people, kind="stable")
    begins = np.append(True, people[order][1:] != people[order][:-1])[:row_count]
    starts = np.maximum.accumulate(np.where(begins, np.arange(row_count), 0))
    turns = np.empty(row_count, dtype=np.int64)
    turns[order] = np.arange(row_count) - starts
    return turns


def figures_record(figures: StepFigures) -> dict[str, Any]:
    """Figures of a step as JSON-able data; one deviation where all cells have the same."""
    stddev = np.asarray(figures.stddev, dtype=np.float64)
    alike = stddev[:1] if stddev.size and (stddev == stddev[0]).all() else stddev
    record = {"values": np.asarray(figures.values).tolist(), "sd": alike.tolist()}
    return {**record, "note": figures.note} if figures.note else record


COSTS = ("epsilon", "rho", "delta")
"""The parts of a price that is offered for all steps together."""
_SIZES = ("periods", "window", "days")


def plan_stream(
    title: str, facts: Facts, method: str, offer: Mapping[str, Any], asked: Mapping[str, Any]
) -> StreamPlan:
    """Plan a whole stream from its options and the declarations."""
    by, values = asked.get("by"), ()
    if by is not None:
        values = cells(facts.declared.schema, arguments.text(by, "by"))
    sizes = {name: asked.get(name) for name in _SIZES}
    request = StreamRequest(
        unit=facts.declared.unit,
        price=facts.price(Offer(**offer)),
        cells=max(1, len(values)),
        **{
            name: None if size is None else arguments.whole(size, name)
            for name, size in sizes.items()
        },
        options={name: value for name, value in asked.items() if name not in (*_SIZES, "by")},
    )
    prepared = prepare(request, arguments.text(method, "method"))
    schema, read = facts.declared.schema, dict.fromkeys((*request.unit.columns, by))
    columns = tuple(schema.column(name) for name in read if name is not None)
    return StreamPlan(title, facts.dataset, request, prepared, by, values, columns=columns)


def cells(schema: Schema, by: str) -> tuple[Any, ...]:
    """The declared values of a column, in order."""
    domains = {column.name: column.domain for column in schema.columns}
    domain = domains.get(by)
    if not isinstance(domain, Values):
        listed = [name for name, domain in domains.items() if isinstance(domain, Values)]
        raise ParameterError(
            "column_unsuitable",
            f"{quoted(by)} is no column with declared values, one figure for each; "
            + (suggestion(by, listed) if listed else "none is declared."),
        )
    return tuple(domain.values)


def begin_stream(
    session: Asking,
    asker_of: AskerOf,
    dataset: str,
    method: str,
    offer: Mapping[str, Any],
    asked: Mapping[str, Any],
) -> Stream:
    """Charge a stream as a whole and begin it in memory; only the owner of the rows may step it."""
    if not isinstance(session, Session) or not asker_of((dataset,)).is_owner:
        raise ParameterError(
            "stream_invalid",
            "A stream is stepped by who holds the rows, where they are. Ask the owner for "
            "a continual feed.",
        )
    facts = session.facts(asker_of, dataset)
    # A name of its own: two streams that ask alike are two, with a charge and noise each.
    stream = plan_stream(f"stream {token_hex(16)}", facts, method, offer, asked)
    session.admit("publish", stream, facts)
    answer = session.answer(stream, asker_of, request_id=None)
    return Stream.begun(stream, answer, session.gatekeeper.ledger)


_TYPES = {
    Kind.INTEGER: "BIGINT",
    Kind.REAL: "DOUBLE",
    Kind.TEXT: "VARCHAR",
    Kind.DATE: "DATE",
    Kind.BOOLEAN: "BOOLEAN",
}
BEGUN, _BY = "stream-begun", "stream"
"""The topic of ledger records about charged streams that were begun in memory, and their writer."""
_TRUSTED = "counts, bounded by whoever counted"
"""The note of a step whose guarantee rests on the caller's promise about its counts."""


class StepEntropy(SystemEntropy):
    """The entropy of one step: the operating system's words, the same however often it is begun.

    `setdefault` keeps the words that were drawn first, in one indivisible operation: threads that
    do the same step, and a step that goes on after an interruption, all read one tape.
    """

    def __init__(self, drawn: dict[int, NDArray[np.uint64]]) -> None:
        self._drawn, self._draw = drawn, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        """Draw `count` words: those that were drawn here before, or else new ones."""
        draw, self._draw = self._draw, self._draw + 1
        return self._drawn.setdefault(draw, super().words(count))


@dataclass(frozen=True, eq=False)
class _Claim:
    """A step that was begun: its counts and the words of its noise, which never change."""

    arrival: Arrival
    counts: IntArray
    used: Mapping[Any, int]
    """By person all rows, or periods, that were counted up to this step, it included."""
    note: str
    thread: int = field(default_factory=threading.get_ident)
    drawn: dict[int, NDArray[np.uint64]] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _FinishedStep:
    """The state after a step, with its claim and its output."""

    state: State
    claim: _Claim | None = None
    step: StreamStep | None = None


@dataclass(frozen=True, repr=False)
class StreamStep(Shown):
    """The output of one step of a stream."""

    number: int
    table: pa.Table
    error: dict[str, dict[str, float]]
    note: str = ""

    @property
    def values(self) -> list[Any]:
        """One figure for each cell."""
        figures: list[Any] = self.table.column("rows").to_pylist()
        return figures

    @property
    def stddev(self) -> float:
        """The standard deviation of each figure."""
        return self.error["rows"]["sd"]

    def _card(self) -> Card:
        rows = [tuple(map(str, row.values())) for row in self.table.slice(0, 10).to_pylist()]
        hidden_rows = max(0, self.table.num_rows - 10)
        shown = CardTable(tuple(self.table.column_names), rows, hidden_rows)
        return Card(f"step {self.number}, off by {self.stddev:.4g}", {}, shown)


class Stream(Shown):
    """A stream that is paid for: `step` takes the rows of a period; `told` lists all outputs.

    A stream lives as long as its process. A feed of a vault outlives it.

    Every step has one noise (failure F27). A step is claimed, with its counts, under its number;
    the first claim of a number stands, and whoever comes to that number finishes it with the same
    counts and words. All changes are single `setdefault` calls, which threads and interruptions
    cannot divide; a lock would stay locked where an interruption hits its release. Decision
    `streams`.
    """

    def __init__(self, plan: StreamPlan, receipt: str, state: State) -> None:
        self.plan, self.receipt = plan, receipt
        self._process = this_process()
        self._claims: dict[int, _Claim] = {}
        """By number the steps that were begun, until their callers have the output."""
        self._done: dict[int, _FinishedStep] = {0: _FinishedStep(state)}
        self._used: dict[Any, dict[int, int]] = {}
        """By person and step the rows, or periods, that were counted up to that step."""

    @classmethod
    def begun(cls, plan: StreamPlan, answer: Answer, ledger: Ledger) -> Stream:
        """Begin a stream from the state that was stored under its charge; the ledger allows one.

        A second stream from that state would release the first step again with other noise.
        """
        begun = (BEGUN, answer.entry)

        def once(book: BookState) -> Amendment:
            if begun[1] in book.of(BEGUN):
                raise LedgerError(
                    "object_not_shareable",
                    "The stream of this charge was begun before, and a second one would tell its "
                    "steps again with other noise. Begin another stream, with a charge of its own.",
                )
            return Amendment(records={begun: {"stream": plan.title}})

        ledger.amend(once, operator=_BY)
        return cls(plan, answer.entry, json.loads(answer.table.column("state")[0].as_py()))

    def __reduce__(self) -> NoReturn:
        raise LedgerError(
            "object_not_shareable",
            "A stream cannot be copied or pickled: each of its steps has one noise. Keep what it "
            "told, or begin another stream.",
        )

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of all steps together."""
        return self.plan.guarantee

    @property
    def told(self) -> list[StreamStep]:
        """The outputs of all steps, in order."""
        steps = (self._done[number].step for number in range(1, len(self._done)))
        return [step for step in steps if step is not None]

    def step(self, came: Any, *, bounded: bool = False) -> StreamStep:
        """Count one more period and return noisy figures.

        A step that was interrupted is finished by giving the same rows again. If other rows are
        given, the interrupted step stands as it was begun, and these rows are the next step.

        Parameters
        ----------
        came
            The rows of the period as a table, which is bounded by person here; or the count of each
            cell.
        bounded
            Counts do not say whose rows they are. Where the unit is a person, counts are taken only
            with `bounded=True`: the caller promises that no person is in more rows, or periods,
            than the guarantee says.

        Raises
        ------
        ParameterError
            For counts of another form or without the promise, or after the last paid period.
        LedgerError
            In another process than the one that began the stream.
        """
        if self._process != this_process():
            raise LedgerError(
                "object_not_shareable",
                "A stream is stepped only in the process that began it. Step it there, or use a "
                "feed of a vault.",
            )
        of_counts = _is_counts(came)
        arrival = self._counts(came, bounded=bounded) if of_counts else self._of_rows(came)
        note = _TRUSTED if of_counts and self.plan.request.unit.by_person else ""
        while True:
            number = len(self._done)
            if self._is_repeated(number - 1, arrival):
                return self._hand_over(number - 1)
            self._check_not_over(number)
            own = self._claim(number, arrival, note)
            self._finish(number, self._claims.setdefault(number, own))
            # Where another thread's claim came first, this one goes on to the next number.
            if self._done[number].claim is own or self._is_repeated(number, arrival):
                return self._hand_over(number)

    def _is_repeated(self, number: int, arrival: Arrival) -> bool:
        """Whether the same rows come again because the caller of a step was interrupted.

        A thread that steps again has returned from its last step or was interrupted in it. Equal
        rows of another thread are another period.
        """
        claim = self._claims.get(number)
        return (
            claim is not None
            and claim is self._done[number].claim
            and claim.thread == threading.get_ident()
            and claim.arrival.equals(arrival)
        )

    def _claim(self, number: int, arrival: Arrival, note: str) -> _Claim:
        """Claim a step with its counts: of each person as many rows as are left to them."""
        before = np.array(
            [self._used_before(number, person) for person in arrival.people], dtype=np.int64
        )
        counts, after = arrival.bounded(before, self.plan.request.people)
        raised = np.flatnonzero(after > before)
        used = {arrival.people[index]: int(after[index]) for index in raised}
        return _Claim(arrival, counts, used, note)

    def _used_before(self, number: int, person: Any) -> int:
        """The rows, or periods, of a person that were counted before a step."""
        steps = self._used.get(person)
        # A copy: another thread may note the present step at this moment.
        return (
            max((used for at, used in tuple(steps.items()) if at < number), default=0)
            if steps
            else 0
        )

    def _finish(self, number: int, claim: _Claim) -> None:
        """Finish a claimed step; another thread that finishes it comes to the same output."""
        if number in self._done:
            return  # nothing is drawn for a step that stands
        for person, used in claim.used.items():
            self._used.setdefault(person, {}).setdefault(number, used)
        entropy = StepEntropy(claim.drawn)
        state, output = self.plan.method.step(self._done[number - 1].state, claim.counts, entropy)
        figures = figures_record(output)
        table, error = self.plan.table(figures["values"]), self.plan.step_error(figures["sd"])
        note = "; ".join(filter(None, (figures.get("note"), claim.note)))
        step = StreamStep(number, table, error, note)
        self._done.setdefault(number, _FinishedStep(state, claim, step))

    def _hand_over(self, number: int) -> StreamStep:
        """Return a step's output to its caller; from then on equal rows are another period."""
        step = self._done[number].step
        assert step is not None
        # In one line, and the last: an interruption before it leaves the claim, by which a caller
        # who gives the same rows again gets this step and no second one.
        return (step, self._claims.pop(number, None))[0]

    def _check_not_over(self, number: int) -> None:
        periods = self.plan.request.periods
        if periods is not None and number > periods:
            raise ParameterError(
                "allowance_exhausted",
                f"The stream was paid for {periods:,} periods, and all are told. Begin another; "
                "one without periods= never ends.",
            )

    def _counts(self, came: Any, *, bounded: bool) -> Arrival:
        request = self.plan.request
        if request.unit.by_person and bounded is not True:
            raise ParameterError(
                "stream_invalid",
                f"The stream hides a {quoted(str(request.unit.column))} as a whole, and counts do "
                "not say whose rows they are. Give the rows, which are bounded here; or, if you "
                "have counted no person more often than the guarantee says, over all steps, pass "
                "bounded=True.",
            )
        counts, cells = np.atleast_1d(came), request.cells
        if counts.shape == (cells,) and counts.dtype.kind in "iu" and (counts >= 0).all():
            return Arrival.of_counts(counts)
        raise ParameterError(
            "stream_invalid",
            f"A step takes {cells:,} whole numbers of at least 0, one for each cell, or a "
            "table of rows.",
        )

    def _of_rows(self, table: Any) -> Arrival:
        """Read the rows of a table by person and cell, columns in their declared kinds."""
        unit = self.plan.request.unit
        declared = {column.name: column for column in self.plan.columns}
        # What is no value of its column is missing: how a file is read depends on no row.
        engine = open_source(table, kinds=declared, strict=False, short_texts=True)
        try:
            limits = text_limits(self.plan.columns, unit)
            selected = (_read(column, limits[column.name]) for column in self.plan.columns)
            asked = exp.select(*selected, "1").from_(engine.table)
            rows = engine.run(asked)
        finally:
            engine.close()
        cells = self._cells(rows)
        if unit.column is None:
            counts = np.bincount(cells[cells >= 0], minlength=self.plan.request.cells)
            return Arrival.of_counts(counts)
        return Arrival.of_people(rows.column(unit.column), cells, self.plan.request.cells)

    def _cells(self, rows: pa.Table) -> IntArray:
        """By row the index of its cell among those declared; -1 for any other value."""
        by = self.plan.by
        if by is None:
            return np.zeros(rows.num_rows, dtype=np.int64)
        cells = pa.array(self.plan.values).cast(rows.column(by).type)
        positions = pc.index_in(rows.column(by), value_set=cells).fill_null(-1)
        return np.asarray(positions.to_numpy(), dtype=np.int64)

    def _card(self) -> Card:
        steps = [(str(step.number), str(step.values), f"{step.stddev:.4g}") for step in self.told]
        table = CardTable(("Step", "Rows", "Sd"), steps[-10:], max(0, len(steps) - 10))
        facts = {"Guarantee": self.guarantee.statement}
        return Card(f"{len(steps)} steps told", facts, table if steps else None)


def _is_counts(came: Any) -> bool:
    """Whether the data is a count for each cell; a list of records is a table."""
    if isinstance(came, list | tuple):
        return not came or not isinstance(came[0], Mapping)
    return isinstance(came, int | np.ndarray | np.integer) and not isinstance(came, bool)


def _read(column: Column, limit: TextLimit | None) -> exp.Expr:
    """A column in its declared kind; values of another kind are missing.

    Texts are cut to their limit, and days outside the range of Python's dates are missing.
    """
    value: exp.Expr = exp.TryCast(
        this=exp.column(column.name, quoted=True), to=exp.DataType.build(_TYPES[column.kind])
    )
    if limit is not None:
        value = limit.applied(value)
    elif column.kind is Kind.DATE:
        low, high = (exp.cast(exp.convert(day.isoformat()), "DATE") for day in (date.min, date.max))
        inside = exp.Between(this=value.copy(), low=low, high=high)
        value = exp.case().when(inside, value)
    return exp.alias_(value, column.name, quoted=True)
