"""What searches share: progress and time, and the examination of nodes by rolling tables up.

Decision `optimal-search`.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import OrderedDict
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from sfumato.anonymize.lattice import Node
from sfumato.errors import CriterionError, ParameterError, option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from sfumato.anonymize.cost import Cost
    from sfumato.anonymize.lattice_grouping import GroupedView, Levels
    from sfumato.anonymize.outcome import Ended, Outcome
    from sfumato.anonymize.problem import Problem

_BUDGET = 1 << 28
"""Bytes of grouped tables that are cached: 256 megabytes."""

_DROPPED = np.iinfo(np.int64).max


class Search(Protocol):
    """A search: it finds an admissible release of a problem, cheap by its own lights."""

    def __call__(self, problem: Problem, cost: Cost, watch: SearchProgress) -> Outcome:
        """Search until done or out of time."""
        ...


@dataclass
class SearchProgress:
    """The progress of a search, and its end at the time limit or at Ctrl-C.

    A search checks `expired` between two steps, so no step is left half done, and ends with its
    best release. `ended` has the reason of an early end.
    """

    progress: Callable[[float, float], None] | None = None
    limit_seconds: float | None = None
    started: float = field(default_factory=time.monotonic)
    interrupted: bool = False
    ended: Ended | None = None

    @property
    def expired(self) -> bool:
        """Whether the search must end now."""
        if self.interrupted:
            self.ended = "interrupted"
        elif self.seconds_left is not None and self.seconds_left < 0:
            self.ended = "time"
        return self.ended is not None

    @property
    def seconds_left(self) -> float | None:
        """How many seconds are left; None where there is no limit."""
        if self.limit_seconds is None:
            return None
        return self.limit_seconds - (time.monotonic() - self.started)

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Let the first Ctrl-C end the search with its best result; a second interrupts.

        Where Ctrl-C is ignored it stays so, and other threads than the main one never hear it.
        """
        # Only the main thread may set handlers, and an ignored Ctrl-C must stay ignored.
        before = signal.getsignal(signal.SIGINT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return

        def heard(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                before(number, frame)
            self.interrupted = True

        signal.signal(signal.SIGINT, heard)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    def report(self, finished: float, total: float) -> None:
        """Report how much of the work is done."""
        if self.progress is not None:
            self.progress(finished, total)

    def no_release(self, algorithm: str) -> BaseException:
        """Return the error of a search that ended before it found any release."""
        if self.interrupted:
            return KeyboardInterrupt()
        return ParameterError(
            "parameter_out_of_range",
            f"Algorithm {algorithm!r} found no release within {self.limit_seconds} seconds. Allow "
            "more time, or ask for less.",
            parameter="algorithm",
        )


class Incumbent:
    """The best admissible node of those that were offered."""

    def __init__(self, key: Callable[[Node], tuple[Any, ...]]) -> None:
        self.best: Node | None = None
        self.key, self._least = key, ()

    def offer(self, node: Node) -> None:
        """Take an admissible node if it is better."""
        if node.admissible:
            key = self.key(node)
            if self.best is None or key < self._least:
                self.best, self._least = node, key

    def or_root(self, examiner: Examiner) -> Node | None:
        """Return the best node, or the root: a coarse release is better than none."""
        if self.best is None:
            self.offer(examiner.examine(examiner.problem.top))
        return self.best


def require_cost(algorithm: str, cost: Cost, minimised: str) -> None:
    """Refuse another cost than the one that an algorithm minimises."""
    if cost.name != minimised:
        raise ParameterError(
            "option_not_applicable",
            f"Algorithm {algorithm!r} minimises {minimised}, not cost {cost.name!r}. Leave out the "
            "cost, or take algorithm 'optimal'.",
        )


def unreachable(problem: Problem, *, suppresses: bool = True) -> CriterionError:
    """Return the error when no release is admissible, with or without suppression."""
    if not suppresses:
        return CriterionError(
            "criterion_not_reachable",
            f"No part of the table reaches {problem.asked()}: the whole table does not, and this "
            "algorithm suppresses no rows. Ask for less, or take 'optimal' with "
            f"{option('suppress')}.",
        )
    where = "" if problem.floor is None or problem.monotone else " of those that fit in memory"
    return CriterionError(
        "criterion_not_reachable",
        f"No generalization{where} reaches {problem.asked()} with at most "
        f"{problem.counted(problem.allowed)} suppressed. Ask for less, or allow more suppression.",
    )


class Examiner:
    """Examines nodes, each from the smallest table kept of a finer node."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.checked = 0
        self._base = tuple(view.base for view in problem.views)
        self._kept: OrderedDict[Levels, tuple[GroupedView, ...]] = OrderedDict()
        self._bytes = 0
        # Every node that was ever cached, one in each column: its levels and its number of groups.
        # A dropped one has the largest number, so that it is never chosen.
        self._names: list[Levels] = []
        self._levels = np.zeros((len(problem.shape), 64), dtype=np.int16)
        self._sizes = np.full(64, _DROPPED)

    def examine(self, levels: Levels) -> Node:
        """Group the node, count it as checked, and keep its tables."""
        self.checked += 1
        if levels not in self._kept:
            tables = tuple(
                view.group(table, levels)
                for view, table in zip(self.problem.views, self._finer(levels), strict=True)
            )
            self._store(levels, tables)
        # Most recently used last.
        self._kept.move_to_end(levels)
        return Node(self.problem, levels, self._kept[levels])

    def _finer(self, levels: Levels) -> tuple[GroupedView, ...]:
        """Return the smallest stored tables of a node that is nowhere coarser."""
        # A node can be grouped from any table that is nowhere coarser; the smallest is quickest.
        usable = (self._levels <= np.array(levels, dtype=np.int16)[:, None]).all(axis=0)
        sizes = np.where(usable, self._sizes, _DROPPED)
        index = int(sizes.argmin())
        # A cached table that is no smaller than the base saves nothing.
        if sizes[index] >= len(self._base[0].rows):
            return self._base
        self._kept.move_to_end(self._names[index])
        return self._kept[self._names[index]]

    def _store(self, levels: Levels, tables: tuple[GroupedView, ...]) -> None:
        """Keep tables within the budget; the least recently used go first."""
        self._kept[levels] = tables
        self._bytes += sum(table.bytes for table in tables)
        while self._bytes > _BUDGET and len(self._kept) > 1:
            old, dropped = self._kept.popitem(last=False)
            self._bytes -= sum(table.bytes for table in dropped)
            self._sizes[len(self._names) - 1 - self._names[::-1].index(old)] = _DROPPED
        index = len(self._names)
        if index == len(self._sizes):
            self._levels = np.concatenate([self._levels, np.zeros_like(self._levels)], axis=1)
            self._sizes = np.concatenate([self._sizes, np.full_like(self._sizes, _DROPPED)])
        self._names.append(levels)
        self._levels[:, index] = levels
        self._sizes[index] = len(tables[0].rows)
