"""The private aggregates of one question, as exact integers. Only noise may follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.hashing import Keyed
from sfumato.mechanisms.quantile import Counted
from sfumato.query.aggregate import Aggregates, joined, limbs
from sfumato.query.capping import salted
from sfumato.query.statistic import Count, Distinct, People, Rank, Total
from sfumato.query.tally import found_groups, read

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from sqlglot import exp

    from sfumato.engines.base import Engine
    from sfumato.hashing import Native
    from sfumato.query.aggregate import Asked
    from sfumato.query.levels import Level
    from sfumato.query.plan import Plan
    from sfumato.query.statistic import Statistic
    from sfumato.query.tally import Groups, Tally


class Questions:
    """What to ask the engine for the wanted statistics at their levels, under a secret salt.

    What is kept of people is the same on every engine unless an engine's own hash is given.
    """

    def __init__(
        self,
        plan: Plan,
        levels: Sequence[Level],
        wanted: Iterable[tuple[int, Statistic]],
        source: exp.Query,
        salt: str,
        native: Native | None = None,
    ) -> None:
        slots = list(wanted)
        different = dict.fromkeys(one for _, one in slots)
        self.keys, self.unit = plan.keys, plan.unit
        self.additive = [one for one in different if isinstance(one, Count | Total)]
        keyed = Keyed(salt, native)
        aggregates = Aggregates(plan, salted(source, keyed), keyed)
        # Counts, sums and ranks are read once for all levels, by every key.
        self.asked: dict[object, Asked] = {}
        if self.additive:
            self.asked[Count] = aggregates.additive(self.additive)
        for number, one in slots:
            if isinstance(one, Rank) and one.argument not in self.asked:
                self.asked[one.argument] = aggregates.ranked(one)
            elif isinstance(one, People):
                self.asked[number, one] = aggregates.people(levels[number])
            elif isinstance(one, Distinct):
                self.asked[number, one] = aggregates.distinct(one, levels[number])


class Exact:
    """Every wanted statistic at its level, read from the engine, contributions bounded."""

    def __init__(self, questions: Questions, engine: Engine) -> None:
        asked = questions.asked
        self._additive, self._unit = questions.additive, questions.unit
        self.axes, tallies = read(engine, list(asked.values()), questions.keys)
        self._tallies: dict[object, Tally] = dict(zip(asked, tallies, strict=True))

    def values(self, one: Statistic, groups: Groups) -> NDArray[Any]:
        """A statistic of each group, in granules."""
        tally, figures = self._place(one, groups.level)
        return joined([groups.collect(tally, figure) for figure in figures], self._unit)

    def counted(self, one: Rank, groups: Groups) -> Counted:
        """How often each point of an argument's grid occurs in each group."""
        tally = self._tallies[one.argument]
        points, counts = tally.figures.values()
        places = groups.places(tally)
        known = places >= 0
        steps = points[known] - one.argument.low
        return Counted(steps, counts[known], places[known], groups.count)

    def found(self, carrier: Statistic, level: Level) -> tuple[Groups, NDArray[np.int64]]:
        """The groups of a level that occur, and how many they count of what decides about them."""
        tally, figures = self._place(carrier, level)
        return found_groups(level, self.axes, tally, figures[0])

    def _place(self, one: Statistic, level: Level) -> tuple[Tally, Sequence[str]]:
        """Where the figures of a statistic stand."""
        if not isinstance(one, Count | Total):
            tally = self._tallies[level.number, one]
            return tally, tuple(tally.figures)
        tally = self._tallies[Count]
        names = iter(tally.figures)
        placed = {
            each: [next(names) for _ in range(limbs(each, self._unit))] for each in self._additive
        }
        return tally, placed[one]
