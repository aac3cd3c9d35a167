"""Streams at the gate: charged as a whole before the first step, then stepped one by one.

What is charged is the whole stream; what is stored under the charge is its state before the first
step, which is never shown. Each step has entropy of its own, which is given out for a charge that
was made and answered, and remembered until the step is done. Decision `stream-state`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.methods.method import Plan
from sfumato.release.release import Guarantee, Provenance, Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.arrays import IntArray
    from sfumato.data.schema.column import Column
    from sfumato.methods.method import Dataset
    from sfumato.methods.stream.method import State, StepFigures, StreamMethod
    from sfumato.methods.stream.request import Participation, StreamRequest
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy

_BETA = 0.05
_LATE = 1024
"""The step of a stream without end that stands for its late ones."""


@dataclass(frozen=True, repr=False)
class WholeStream(Plan):
    """The plan of a whole stream: charged before the first step."""

    title: str
    dataset: str
    request: StreamRequest
    method: StreamMethod
    by: str | None = None
    """The column whose values are the cells."""
    values: tuple[Any, ...] = ()
    asked: tuple[tuple[str, str], ...] = ()
    """What else belongs to it by name, such as its days."""
    columns: tuple[Column, ...] = ()
    """The columns that say whose a row is, and in which cell."""

    name = "stream"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set it counts."""
        return (self.dataset,)

    @property
    def event(self) -> Event:
        """What all steps cost together."""
        return self.method.event

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked."""
        request = self.request
        return {
            **dict(self.asked),
            "stream": self.title,
            "cells": self.by,
            "values": [str(one) for one in self.values],
            "periods": request.periods,
            "window": request.window,
            "days": request.days,
            "cost": request.price.to_record(),
            "unit": request.unit.sentence(),
            "method": {"kind": self.method.name, **self.method.parameters},
        }

    def of(self, plan: Plan) -> Plan:
        """The plan itself: the part of the rows that it is about are those of each step."""
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
        """What all steps together promise, and to whom."""
        request = self.request
        price = request.price.charged(self.event)
        kind, _, parameters = price.promise(request.unit, days=request.days)
        return Guarantee(kind, f"{price.sentence()}. {request.people.sentence()}", parameters)

    def table(self, values: object) -> pa.Table:
        """Figures of a step, with the cells that they are of."""
        rows = pa.array(values)
        if self.by is None:
            return pa.table({"rows": rows})
        return pa.table({self.by: pa.array(self.values), "rows": rows})

    def step_error(self, stddev: list[float]) -> dict[str, dict[str, float]]:
        """How far the figures of a step are off.

        Sums of Gaussian noises have the tail of one; for others the bound is Chebyshev's.
        """
        sd = max(stddev)
        gaussian = self.method.parameters.get("noise") == "gaussian"
        tail = math.sqrt(2 * math.log(2 / _BETA)) if gaussian else 1 / math.sqrt(_BETA)
        return {"rows": {"sd": sd, "bound95": sd * tail}}

    def expected(self) -> dict[str, float] | None:
        """How far off the first step and the last, or a late one, will be; None if unknown."""
        last = self.request.periods or _LATE
        found = {step: self.method.variance(step) for step in (1, last)}
        return {
            f"step {step:,}": math.sqrt(one) for step, one in found.items() if one is not None
        } or None


@dataclass(frozen=True)
class Reached:
    """How far a stream is: the number of its last step, its state, and what the step told."""

    step: int
    state: State
    told: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Arrival:
    """What one period brought: counts of each cell, or rows by person and cell."""

    counts: IntArray
    people: list[Any]
    """The different people; none where counts came, or where every row is one of its own."""
    rows: IntArray
    """By row the place of its person in `people`, and of its cell; -1 for no declared cell."""

    @classmethod
    def of_counts(cls, counts: IntArray) -> Arrival:
        """Counts that are bounded already, or of which every row is one of its own."""
        return cls(counts.astype(np.int64), [], np.empty((2, 0), dtype=np.int64))

    @classmethod
    def of_people(
        cls, people: pa.ChunkedArray | pa.Array, cells: IntArray, cell_count: int
    ) -> Arrival:
        """Rows by the person that each belongs to, and its cell, in the order in which they count.

        Rows of nobody, whose person is missing or NaN, are left out.
        """
        if isinstance(people, pa.ChunkedArray):
            people = people.combine_chunks()
        coded = people.dictionary_encode()
        names = [None if one != one else one for one in coded.dictionary.to_pylist()]
        codes = coded.indices.fill_null(-1).to_numpy()
        nobody = [-1, *(place for place, one in enumerate(names) if one is None)]
        kept = ~np.isin(codes, nobody)
        rows = np.stack([codes[kept], cells[kept]]).astype(np.int64)
        return cls(np.zeros(cell_count, dtype=np.int64), names, rows)

    def bounded(self, used: IntArray, people: Participation) -> tuple[IntArray, IntArray]:
        """The rows of each cell that count, and by person what is used up with them.

        `used` has by person the rows, or where `days` bounds them the periods, that counted before.
        Of each person the first rows count, as many as are left to them.
        """
        if not self.people:
            return self.counts, used
        most, days = people.unit.max_rows, people.days
        left = np.maximum(most - used, 0) if days is None else np.where(used < days, most, 0)
        codes, cells = self.rows
        kept = _turns(codes) < left[codes]
        counted = np.bincount(codes[kept], minlength=len(self.people))
        after = used + (counted if days is None else counted > 0)
        found = np.bincount(cells[kept & (cells >= 0)], minlength=len(self.counts))
        return found.astype(np.int64), after.astype(np.int64)

    def equals(self, other: Arrival) -> bool:
        """Whether two periods brought the same in the same order."""
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


def plain_told(told: StepFigures) -> dict[str, Any]:
    """What a step told as JSON has it; one deviation where all cells have the same."""
    stddev = np.asarray(told.stddev, dtype=np.float64)
    alike = stddev[:1] if stddev.size and (stddev == stddev[0]).all() else stddev
    found = {"values": np.asarray(told.values).tolist(), "sd": alike.tolist()}
    return {**found, "note": told.note} if told.note else found
