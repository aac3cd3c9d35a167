"""Streams at the gate: charged as a whole before the first step, then stepped one by one.

What is charged is the whole stream; what is stored under the charge is its state before the first
step, which is never shown. Each step has entropy of its own, which is given out for a charge that
was made and answered, and remembered until the step is done. Decisions 0400 and 0401.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from sfumato.release.release import Guarantee, Provenance, Release

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from sfumato.method import Dataset, Prepared
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.schema.column import Column
    from sfumato.stream.method import State, StreamMethod, Told
    from sfumato.stream.request import StreamRequest

_BETA = 0.05
_LATE = 1024
"""The step of a stream without end that stands for its late ones."""


@dataclass(frozen=True)
class WholeStream:
    """A method over a stream, with all that determines what is asked, ready to be charged."""

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
    public = ()

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

    def of(self, prepared: Prepared) -> Prepared:
        """Itself: the part of the rows that it is about are those of each step."""
        return prepared

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

    def error(self, stddev: list[float]) -> dict[str, dict[str, float]]:
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


class StreamMemory(Protocol):
    """Where streams remember how far they are, under the charge that each was paid by."""

    def reached(self, stream: str) -> Reached | None:
        """The last step of a stream; None before the first."""
        ...

    def tape(self, stream: str, step: int) -> Entropy:
        """The entropy of a step: the same words however often the step is begun."""
        ...

    def settle(self, stream: str, reached: Reached) -> Reached:
        """Remember one more step, unless somebody else did; what stands then."""
        ...


def take_step(
    memory: StreamMemory, stream: str, method: StreamMethod, before: Reached, counts: NDArray[Any]
) -> Reached:
    """Step once from where a stream is. Whoever comes second gets what the first came to."""
    number = before.step + 1
    state, told = method.step(before.state, counts, memory.tape(stream, number))
    return memory.settle(stream, Reached(number, state, plain_told(told)))


def plain_told(told: Told) -> dict[str, Any]:
    """What a step told as JSON has it; one deviation where all cells have the same."""
    stddev = np.asarray(told.stddev, dtype=np.float64)
    alike = stddev[:1] if stddev.size and (stddev == stddev[0]).all() else stddev
    found = {"values": np.asarray(told.values).tolist(), "sd": alike.tolist()}
    return {**found, "note": told.note} if told.note else found
