"""The result of a search: a release, its costs, and whether it is optimal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any, Literal

from sfumato.anonymize.cost import Costs, ncp
from sfumato.release.recoding import ByColumn

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.anonymize.lattice import Node
    from sfumato.anonymize.lattice_grouping import Levels
    from sfumato.anonymize.partition import LabelledGroups
    from sfumato.release.recoding import Recoding


Ended = Literal["time", "interrupted"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome(ABC):
    """A release as any search decides it.

    `optimal` says that no cheaper release of its kind exists, `bound` what the cheapest must cost
    at least, `factor` how far from the optimum the algorithm can be, `minimal` all nodes below
    which nothing is admissible, `lattice` and `checked` how many nodes there are and were examined,
    `notes` what a reader of the report should know. `people` and `suppressed_people`, those who
    lose a row, are there where people are counted. `ended` says what ended the search before its
    own end, and `minimised` which cost `optimal` and `bound` are about.
    """

    algorithm: str
    criteria: tuple[str, ...]
    k: int
    rows: int
    suppressed: int
    classes: int
    cost: Mapping[str, float]
    ncp: Mapping[str, float]
    optimal: bool = False
    bound: float | None = None
    factor: float | None = None
    levels: Mapping[str, int] | None = None
    minimal: tuple[Mapping[str, int], ...] | None = None
    lattice: int | None = None
    checked: int | None = None
    notes: tuple[str, ...] = ()
    people: int | None = None
    suppressed_people: int | None = None
    ended: Ended | None = None
    minimised: str | None = None

    @property
    def excess(self) -> float | None:
        """How many times the least possible cost this one is at most, where that is known."""
        if self.minimised is None or self.bound is None or not self.bound > 0:
            return None
        return max(1.0, self.cost[self.minimised.replace("-", "_")] / self.bound)

    @property
    def verdict(self) -> str | None:
        """How near the cost is to the least, in a sentence; None without a bound."""
        if self.minimised is None or not (self.optimal or self.ended or self.bound is not None):
            return None
        if self.optimal:
            return f"Proven optimal: no release of its kind has less {self.minimised}."
        why = {"time": "was ended by its time limit", "interrupted": "was interrupted"}
        ended = why.get(self.ended or "", "ended before everything was looked at")
        # The share is rounded up, so that "at most" stays true.
        above = "" if self.excess is None else f", at most {ceil(1000 * self.excess - 1000) / 10} %"
        most = f"{above} above the least {self.minimised}" if above else ""
        return f"Not proven optimal{most}: the search {ended}."

    @property
    def released(self) -> int:
        """How many rows are released."""
        return self.rows - self.suppressed

    @abstractmethod
    def recoding(self, unchanged: Sequence[str] = ()) -> Recoding:
        """Return the recoding for the engine, with further columns unchanged."""


def outcome_facts(
    algorithm: str, release: Node | LabelledGroups, weights: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Count and price a release, as any outcome has it."""
    problem = release.problem
    return {
        "algorithm": algorithm,
        "criteria": problem.worded,
        "k": problem.k,
        "rows": problem.rows,
        "suppressed": release.suppressed,
        "classes": len(release.sizes),
        "cost": Costs(weights).measure(release),
        "ncp": ncp(release),
        "people": None if problem.people is None else problem.people.count,
        "suppressed_people": release.suppressed_people,
    }


@dataclass(frozen=True, kw_only=True, eq=False)
class Generalization(Outcome):
    """A full-domain release: one level for each quasi-identifier, failing classes suppressed."""

    node: Node

    @classmethod
    def of(
        cls,
        algorithm: str,
        node: Node,
        *,
        checked: int,
        lattice: int,
        weights: Mapping[str, float] | None = None,
        optimal: bool = False,
        bound: float | None = None,
        minimal: Sequence[Levels] | None = None,
        notes: tuple[str, ...] = (),
    ) -> Generalization:
        """Return the outcome of a search that chose a node."""
        names = [column.name for column in node.problem.quasi]

        def by_name(levels: Levels) -> dict[str, int]:
            return dict(zip(names, levels, strict=True))

        return cls(
            **outcome_facts(algorithm, node, weights),
            optimal=optimal,
            bound=bound,
            levels=by_name(node.levels),
            minimal=None if minimal is None else tuple(map(by_name, minimal)),
            lattice=lattice,
            checked=checked,
            notes=notes,
            node=node,
        )

    def recoding(self, unchanged: Sequence[str] = ()) -> ByColumn:
        """Value maps for every quasi-identifier, and the suppressed combinations of labels."""
        import pyarrow as pa

        columns = zip(self.node.problem.quasi, self.node.levels, strict=True)
        maps = tuple(column.released(level) for column, level in columns)
        codes = [pa.array(codes) for codes in self.node.suppressed_codes]
        suppressed = pa.Table.from_arrays(codes, names=[column_map.column for column_map in maps])
        return ByColumn(maps, suppressed, tuple(unchanged))
