"""Compare a synthetic table with its original, column by column, in pairs and in threes."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.evaluation import learning
from sfumato.attack.evaluation.cells import cells, coded
from sfumato.attack.evaluation.coding import coding_of
from sfumato.attack.evaluation.copies import copies
from sfumato.attack.evaluation.distances import (
    ChanceFloor,
    Distance,
    correlation,
    cramers_v,
    distance,
    propensity,
    square,
)
from sfumato.attack.evaluation.ranges import Range, ask
from sfumato.attack.evaluation.result import ComparedColumn, ComparedPair, Evaluation, Sets
from sfumato.attack.evaluation.subsets import subsets
from sfumato.data.schema.names import count as many
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sfumato.attack.evaluation.cells import Cells, CodedTable
    from sfumato.attack.evaluation.coding import Coding
    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column

    Progress = Callable[[float, float], None]

_MOST = {2: 2_000, 3: 400}
"""So many sets of two and of three columns are looked at."""
_MOST_ASKED = {2: 2_000, 3: 50}
"""And so many where each has to be counted in the engine by itself."""


@dataclass(frozen=True)
class Form:
    """What is known of the form of a synthetic table before its values are compared."""

    remarks: tuple[str, ...]
    malformed: Mapping[str, int]
    files: tuple[Path, ...] = ()


def compare(
    original: Engine,
    synthetic: Engine,
    columns: Sequence[Column],
    form: Form,
    *,
    target: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Measure how near a synthetic table is to its original, and what it gives away."""
    codings = [coding_of(column, original) for column in columns]
    with ExitStack() as views:
        real, made = (
            views.enter_context(coded(engine, engine.table, codings))
            for engine in (original, synthetic)
        )
        for side, what in ((real, "original"), (made, "synthetic table")):
            if not side.rows:
                raise ParameterError(
                    "nothing_to_evaluate",
                    f"The {what} has no rows, so nothing can be compared. Name another.",
                )
        return _Comparison(real, made, progress).evaluation(form, target, columns)


class _Comparison:
    """Two coded tables under comparison."""

    def __init__(self, real: CodedTable, made: CodedTable, progress: Progress | None) -> None:
        self._real, self._made, self._progress = real, made, progress
        self._codings = real.codings
        self._floor = ChanceFloor(real.rows, made.rows)
        held = real.held is not None and made.held is not None
        self._chosen = {
            size: subsets(len(self._codings), size, most)
            for size, most in (_MOST if held else _MOST_ASKED).items()
        }
        self._done = 0

    def evaluation(self, form: Form, target: str | None, columns: Sequence[Column]) -> Evaluation:
        """All that is measured."""
        singles = [
            self._column(place, form.malformed.get(coding.name, 0))
            for place, coding in enumerate(self._codings)
        ]
        pairs = [self._pair(places) for places in self._chosen[2]]
        threes, ranges = self._threes()
        by_size = {
            1: [one.distance for one in singles],
            2: [one.distance for one in pairs],
            3: threes,
        }
        names = [one.name for one in columns]
        real, made = self._real, self._made
        same = copies((real.engine, real.engine.table), (made.engine, made.engine.table), names)
        return Evaluation(
            (real.rows, made.rows),
            tuple(singles),
            {size: _sets(found, len(names), size) for size, found in by_size.items() if found},
            tuple(pairs),
            tuple(ranges),
            same,
            learning.told_apart(real, made) if learning.installed() else None,
            None if target is None else learning.learn(real, made, names.index(target)),
            (*form.remarks, *_told(singles)),
            form.files,
        )

    def _cells(self, places: Sequence[int]) -> Cells:
        self._done += 1
        if self._progress is not None:
            total = len(self._codings) + sum(map(len, self._chosen.values()))
            self._progress(self._done, total)
        return cells(self._real, self._made, places)

    def _column(self, place: int, malformed: int) -> ComparedColumn:
        coding, found = self._codings[place], self._cells([place])
        sides = [
            np.bincount(found.codes[0], weights=counts, minlength=coding.size).astype(int)
            for counts in (found.original, found.synthetic)
        ]
        original, synthetic = (tuple(one.tolist()) for one in sides)
        apart = distance(found, self._floor)
        return ComparedColumn(coding, original, synthetic, apart, malformed)

    def _pair(self, places: tuple[int, ...]) -> ComparedPair:
        found = self._cells(places)
        codings = [self._codings[place] for place in places]
        sizes = (codings[0].size, codings[1].size)
        sides = [square(found, one, sizes) for one in (found.original, found.synthetic)]
        correlations = None
        if all(one.ordered for one in codings):
            known = [one[: codings[0].missing, : codings[1].missing] for one in sides]
            correlations = (correlation(known[0]), correlation(known[1]))
        shares = found.original / self._real.rows, found.synthetic / self._made.rows
        furthest = int(np.abs(shares[0] - shares[1]).argmax())
        invented = np.where(found.original == 0, found.synthetic, 0)
        largest = int(invented.argmax())
        return ComparedPair(
            (codings[0].name, codings[1].name),
            distance(found, self._floor),
            propensity(found),
            (cramers_v(sides[0]), cramers_v(sides[1])),
            correlations,
            _cell(found, furthest, codings, shares),
            _cell(found, largest, codings, shares) if invented[largest] else None,
        )

    def _threes(self) -> tuple[list[Distance], list[Range]]:
        """Sets of three columns, and a question about each; of fewer columns, about all."""
        found: list[Distance] = []
        asked: list[Range | None] = []
        threes = self._chosen[3]
        for number, places in enumerate(threes or [tuple(range(len(self._codings)))]):
            looked_at = self._cells(places)
            if threes:
                found.append(distance(looked_at, self._floor))
            asked.append(ask(number, looked_at, [self._codings[place] for place in places]))
        return found, [one for one in asked if one is not None]


def _sets(found: Sequence[Distance], columns: int, size: int) -> Sets:
    mean = Distance(*(float(np.mean(one)) for one in zip(*found, strict=True)))
    return Sets(len(found), comb(columns, size), mean)


def _cell(
    found: Cells, place: int, codings: Sequence[Coding], shares: tuple[np.ndarray, np.ndarray]
) -> Range:
    """A cell in words, and the shares of rows in it."""
    words = " and ".join(
        f"{coding.name} {coding.label(int(codes[place]))}"
        for coding, codes in zip(codings, found.codes, strict=True)
    )
    return Range(words, float(shares[0][place]), float(shares[1][place]))


def _told(columns: Sequence[ComparedColumn]) -> list[str]:
    """What is wrong with the values of columns, for people."""
    told = []
    for one in columns:
        if one.malformed:
            told.append(f"{one.name}: {many(one.malformed, 'cell')} not of its kind.")
        if one.outside:
            told.append(f"{one.name}: {many(one.outside, 'row')} with a value not declared.")
        if one.gaps > 0:
            told.append(
                f"{one.name}: {many(one.gaps, 'row')} without a value, which may not be missing."
            )
    return told
