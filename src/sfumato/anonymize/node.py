"""A node of the lattice, examined: its classes, which of them fail, and what would be released."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.classes import Cells, Classes

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Counts
    from sfumato.anonymize.cost.base import Separable
    from sfumato.anonymize.criteria.base import Criterion
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.views import Levels, Table


@dataclass(frozen=True, eq=False)
class Node:
    """One level per quasi-identifier, and the tables of all views grouped there.

    As a release it has every class that passes; the rows of the others are suppressed.
    """

    problem: Problem
    levels: Levels
    tables: tuple[Table, ...]
    _totals: dict[str, list[float]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def occupied(self) -> NDArray[np.bool_] | None:
        """Which groups of the first view have rows; None where all do."""
        table = self.tables[0]
        return None if table.population is None else table.counts > 0

    @cached_property
    def classes(self) -> Classes:
        """All classes, in the order of their labels."""
        cells = {}
        sizes: Counts | None = None
        for view, table in zip(self.problem.views, self.tables, strict=True):
            if view.original is None or view.values is None or table.starts is None:
                continue
            column = Cells(table.starts, view.values[table.rows], table.counts, view.original)
            cells[view.original.name] = column
            sizes = column.sizes
        first = self.tables[0]
        if self.occupied is None or first.population is None:
            return Classes(first.counts if sizes is None else sizes, cells)
        people = first.population[self.occupied]
        unmatched = int(first.population.sum() - people.sum())
        return Classes(first.counts[self.occupied], cells, people, unmatched)

    @cached_property
    def representatives(self) -> NDArray[np.int64]:
        """A row of the first view for each class."""
        table = self.tables[0]
        if self.occupied is not None:
            return table.rows[self.occupied]
        return table.rows if table.starts is None else table.rows[table.starts]

    @cached_property
    def lacking(self) -> NDArray[np.bool_]:
        """Which classes fail the absorbing part of the criteria."""
        return _failing(self.problem.necessary, self.classes)

    @cached_property
    def failing(self) -> int:
        """Rows that fail the absorbing part; no finer node suppresses fewer."""
        return int(self.classes.sizes[self.lacking].sum())

    @cached_property
    def fails(self) -> NDArray[np.bool_]:
        """Which classes fail any criterion."""
        if not self.problem.further:
            return self.lacking
        return self.lacking | _failing(self.problem.further, self.classes)

    @cached_property
    def suppressed(self) -> int:
        """How many rows are suppressed."""
        return int(self.classes.sizes[self.fails].sum()) if self.problem.further else self.failing

    @property
    def hopeless(self) -> bool:
        """Whether this and every finer node suppresses too many rows."""
        allowed, monotone = self.problem.allowed, self.problem.monotone
        return self.failing > allowed or (monotone and self.suppressed > allowed)

    @property
    def admissible(self) -> bool:
        """Whether no more rows are suppressed than allowed."""
        return not self.hopeless and self.suppressed <= self.problem.allowed

    @cached_property
    def sizes(self) -> Counts:
        """The sizes of the released classes."""
        sizes: Counts = self.classes.sizes[~self.fails]
        return sizes

    def totals(self, cost: Separable) -> list[float]:
        """What the cells of each column cost, released or suppressed."""
        if cost.unit not in self._totals:
            columns = zip(self.problem.quasi, self.levels, self.suppressed_codes, strict=True)
            gone, totals = self.classes.sizes[self.fails], []
            for column, level, codes in columns:
                profile = cost.profile(column)
                total, prices = profile.sums[level].item(), profile.prices[level]
                if self.suppressed:
                    many = len(prices) > 1
                    lost = prices[codes] @ gone if many else prices[0] * self.suppressed
                    total += self.suppressed * profile.full - lost.item()
                totals.append(total)
            self._totals[cost.unit] = totals
        return self._totals[cost.unit]

    @cached_property
    def suppressed_codes(self) -> list[NDArray[np.integer]]:
        """The label codes of the suppressed combinations, column by column."""
        rows, codes = self.representatives[self.fails], self.problem.views[0].codes
        return [codes[place][level][rows] for place, level in enumerate(self.levels)]


def _failing(criteria: Iterable[Criterion], classes: Classes) -> NDArray[np.bool_]:
    """Which classes fail any of these criteria."""
    passes = np.ones(len(classes), dtype=bool)
    for criterion in criteria:
        passes &= criterion.holds(classes)
    return ~passes
