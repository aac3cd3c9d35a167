"""Evaluate a synthetic table of any origin against its original, for the owner, without a budget.

Columns are compared one by one, in pairs and in threes.
"""

from __future__ import annotations

from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass, replace
from math import comb
from typing import TYPE_CHECKING

import numpy as np

from sfumato import arguments
from sfumato.attack.evaluation import learning
from sfumato.attack.evaluation.coded_counts import cells, coded, coding_of
from sfumato.attack.evaluation.copies import copies
from sfumato.attack.evaluation.foreign_table import open_stranger
from sfumato.attack.evaluation.learning import require_installed
from sfumato.attack.evaluation.measures import (
    ChanceFloor,
    Distance,
    Range,
    ask,
    correlation,
    cramers_v,
    distance,
    propensity,
    square,
)
from sfumato.attack.evaluation.result import (
    ComparedColumn,
    ComparedPair,
    ComparedPaths,
    Evaluation,
    Sets,
)
from sfumato.attack.sampling import subsets
from sfumato.data.schema.column import Role
from sfumato.data.schema.names import count as many
from sfumato.data.schema.names import quoted, suggestion
from sfumato.data.schema.schema import Points
from sfumato.errors import ParameterError, SchemaError, option
from sfumato.release.files_in_use import source_files
from sfumato.release.open_table import Table, read, source_of
from sfumato.release.release import Release

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from sfumato.attack.evaluation.coded_counts import Cells, CodedTable, Coding
    from sfumato.attack.evaluation.foreign_table import Stranger
    from sfumato.data.engines.base import Engine
    from sfumato.data.engines.sources import Source
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema

    Progress = Callable[[float, float], None]


def evaluate(
    synthetic: Source | Table | Release,
    original: Source | Table,
    schema: str | Path | Schema | None = None,
    *,
    target: str | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Compare a synthetic table of any origin with its original.

    Nothing is charged. The result is computed from the original, so it is for the owner only.

    Parameters
    ----------
    synthetic
        A path, a table or a release.
    original
        The table that the synthetic one stands for.
    schema
        The schema of the original, or its file. Leave it out if the original is an open table.
    target
        A column to learn: models are trained on either table, and tested on rows of the original
        (needs scikit-learn).
    progress
        Called with the number of sets of columns that are done, and the number of all.

    Returns
    -------
    Evaluation
        Distances for one, two and three columns, copied rows, and what models learn.

    Raises
    ------
    ParameterError
        If the target is unknown or cannot be learned, or a table has no rows.
    SchemaError
        If the tables have no column that can be compared.

    Example
    -------
    >>> import sfumato as sf
    >>> evaluation = sf.evaluate(
    ...     "synthetic.csv", "people.csv", schema="people.toml"
    ... )  # doctest: +SKIP
    >>> evaluation.tvd(2), evaluation.copies.unique  # doctest: +SKIP
    """
    if arguments.maybe_text(target, "target") is not None:
        require_installed()
    if isinstance(original, Table) and schema is not None:
        raise ParameterError(
            "options_conflict",
            "An open table already has a schema, and a second one cannot be used. Leave "
            f"{option('schema')} out.",
        )
    opened = (
        nullcontext(original) if isinstance(original, Table) else closing(read(original, schema))
    )
    with opened as people:
        compared = _compared_columns(people.schema, target)
        source = synthetic.table if isinstance(synthetic, Release) else source_of(synthetic)
        assert source is not None
        stranger = open_stranger(source, people.schema, compared)
        with closing(stranger.engine):
            if target is not None and target not in [column.name for column in stranger.columns]:
                raise ParameterError(
                    "column_unknown",
                    f"The synthetic table has no column {quoted(target)} that can be compared, so "
                    f"nothing can be learned about it. Name another {option('target')}.",
                )
            files = (*people.files, *source_files(source))
            remarks = (*_left_out(people.schema, compared), *stranger.remarks)
            form = Form(remarks, stranger.malformed, files)
            evaluation = compare(
                people.engine,
                stranger.engine,
                stranger.columns,
                form,
                target=target,
                progress=progress,
            )
            return replace(evaluation, paths=_paths(people, stranger))


def _paths(people: Table, stranger: Stranger) -> ComparedPaths | None:
    """Compare trajectories, if rows are points and the synthetic table has their columns."""
    form = people.schema.form
    if not isinstance(form, Points):
        return None
    held = stranger.engine.columns(stranger.engine.table)
    compared = {column.name for column in stranger.columns}
    if form.path not in held or not compared.issuperset((form.time, form.x, form.y)):
        return None
    from sfumato.methods.trajectory.utility import compare_paths

    comparison = compare_paths(people.engine, stranger.engine, people.schema, form)
    if comparison is None:
        return None
    figures, path_counts, (original, synthetic) = comparison
    return ComparedPaths(path_counts, figures.to_json(), (original, synthetic))


def _compared_columns(schema: Schema, target: str | None) -> list[Column]:
    """Return the compared columns: all but identifiers, which a synthetic table invents."""
    apart = schema.unit.column
    compared = [
        column
        for column in schema.columns
        if column.role is not Role.IDENTIFIER and column.name != apart
    ]
    names = [column.name for column in compared]
    if not compared:
        raise SchemaError(
            "comparison_impossible",
            "Every column of the original is an identifier. A synthetic table invents identifiers, "
            "so nothing can be compared. Declare other roles.",
        )
    if target is not None and target not in names:
        raise ParameterError(
            "column_unknown",
            f"There is no column {quoted(target)} to learn among those that are compared; "
            + suggestion(target, names),
        )
    return compared


def _left_out(schema: Schema, compared: Sequence[Column]) -> list[str]:
    names = [column.name for column in schema.columns if column not in compared]
    return [f"Not compared, because they only identify people: {', '.join(names)}."] * bool(names)


_MOST = {2: 2_000, 3: 400}
"""Sets of two and of three columns compared at most, if both tables are counted in memory."""


_MOST_ASKED = {2: 2_000, 3: 50}
"""The same if each set has to be counted in the engine."""


@dataclass(frozen=True)
class Form:
    """The form of a synthetic table: what is known before its values are compared."""

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
    """Measure how close a synthetic table is to its original, and how many rows it copies."""
    codings = [coding_of(column, original) for column in columns]
    with ExitStack() as views:
        real, coded_synthetic = (
            views.enter_context(coded(engine, engine.table, codings))
            for engine in (original, synthetic)
        )
        for side, description in ((real, "original"), (coded_synthetic, "synthetic table")):
            if not side.rows:
                raise ParameterError(
                    "table_empty",
                    f"The {description} has no rows, so nothing can be compared. Name another.",
                )
        return _Comparison(real, coded_synthetic, progress).evaluation(form, target, columns)


class _Comparison:
    """Two coded tables under comparison."""

    def __init__(self, real: CodedTable, synthetic: CodedTable, progress: Progress | None) -> None:
        self._real, self._made, self._progress = real, synthetic, progress
        self._codings = real.codings
        self._floor = ChanceFloor(real.rows, synthetic.rows)
        held = real.held is not None and synthetic.held is not None
        self._chosen = {
            size: subsets(len(self._codings), size, most)
            for size, most in (_MOST if held else _MOST_ASKED).items()
        }
        self._done = 0

    def evaluation(self, form: Form, target: str | None, columns: Sequence[Column]) -> Evaluation:
        """Return all measures."""
        singles = [
            self._column(number, form.malformed.get(coding.name, 0))
            for number, coding in enumerate(self._codings)
        ]
        pairs = [self._pair(chosen) for chosen in self._chosen[2]]
        threes, ranges = self._threes()
        by_size = {
            1: [single.distance for single in singles],
            2: [pair.distance for pair in pairs],
            3: threes,
        }
        names = [column.name for column in columns]
        real, synthetic = self._real, self._made
        copied = copies(
            (real.engine, real.engine.table), (synthetic.engine, synthetic.engine.table), names
        )
        return Evaluation(
            (real.rows, synthetic.rows),
            tuple(singles),
            {
                size: _sets(distances, len(names), size)
                for size, distances in by_size.items()
                if distances
            },
            tuple(pairs),
            tuple(ranges),
            copied,
            learning.told_apart(real, synthetic) if learning.installed() else None,
            None if target is None else learning.learn(real, synthetic, names.index(target)),
            (*form.remarks, *_value_remarks(singles)),
            form.files,
        )

    def _cells(self, chosen: Sequence[int]) -> Cells:
        self._done += 1
        if self._progress is not None:
            total = len(self._codings) + sum(map(len, self._chosen.values()))
            self._progress(self._done, total)
        return cells(self._real, self._made, chosen)

    def _column(self, index: int, malformed: int) -> ComparedColumn:
        coding, counted = self._codings[index], self._cells([index])
        sides = [
            np.bincount(counted.codes[0], weights=counts, minlength=coding.size).astype(int)
            for counts in (counted.original, counted.synthetic)
        ]
        original, synthetic = (tuple(side.tolist()) for side in sides)
        apart = distance(counted, self._floor)
        return ComparedColumn(coding, original, synthetic, apart, malformed)

    def _pair(self, chosen: tuple[int, ...]) -> ComparedPair:
        counted = self._cells(chosen)
        codings = [self._codings[index] for index in chosen]
        sizes = (codings[0].size, codings[1].size)
        sides = [square(counted, counts, sizes) for counts in (counted.original, counted.synthetic)]
        correlations = None
        if all(coding.ordered for coding in codings):
            # Correlation is of known values: missing and other values have no order.
            known = [side[: codings[0].missing, : codings[1].missing] for side in sides]
            correlations = (correlation(known[0]), correlation(known[1]))
        shares = counted.original / self._real.rows, counted.synthetic / self._made.rows
        furthest = int(np.abs(shares[0] - shares[1]).argmax())
        invented = np.where(counted.original == 0, counted.synthetic, 0)
        largest = int(invented.argmax())
        return ComparedPair(
            (codings[0].name, codings[1].name),
            distance(counted, self._floor),
            propensity(counted),
            (cramers_v(sides[0]), cramers_v(sides[1])),
            correlations,
            _cell(counted, furthest, codings, shares),
            _cell(counted, largest, codings, shares) if invented[largest] else None,
        )

    def _threes(self) -> tuple[list[Distance], list[Range]]:
        """Compare sets of three columns, and ask a range query about each, or about all columns."""
        distances: list[Distance] = []
        asked: list[Range | None] = []
        threes = self._chosen[3]
        for number, chosen in enumerate(threes or [tuple(range(len(self._codings)))]):
            looked_at = self._cells(chosen)
            if threes:
                distances.append(distance(looked_at, self._floor))
            asked.append(ask(number, looked_at, [self._codings[index] for index in chosen]))
        return distances, [query for query in asked if query is not None]


def _sets(distances: Sequence[Distance], columns: int, size: int) -> Sets:
    mean = Distance(*(float(np.mean(figures)) for figures in zip(*distances, strict=True)))
    return Sets(len(distances), comb(columns, size), mean)


def _cell(
    counted: Cells, cell: int, codings: Sequence[Coding], shares: tuple[np.ndarray, np.ndarray]
) -> Range:
    """Return a cell in words, with the shares of rows in it."""
    text = " and ".join(
        f"{coding.name} {coding.label(int(codes[cell]))}"
        for coding, codes in zip(codings, counted.codes, strict=True)
    )
    return Range(text, float(shares[0][cell]), float(shares[1][cell]))


def _value_remarks(columns: Sequence[ComparedColumn]) -> list[str]:
    """Return remarks about wrong values of columns."""
    remarks = []
    for column in columns:
        if column.malformed:
            remarks.append(f"{column.name}: {many(column.malformed, 'cell')} not of its kind.")
        if column.outside:
            remarks.append(
                f"{column.name}: {many(column.outside, 'row')} with a value not declared."
            )
        if column.gaps > 0:
            remarks.append(
                f"{column.name}: {many(column.gaps, 'row')} without a value, "
                "which may not be missing."
            )
    return remarks
