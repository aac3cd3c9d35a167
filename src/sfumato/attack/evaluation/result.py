"""The result of an evaluation: distances by columns and pairs, copies, models, paths, as JSON."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import count
from sfumato.filesystem import check_target, whole
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from sfumato.arrays import FloatArray
    from sfumato.attack.evaluation.coded_counts import Coding
    from sfumato.attack.evaluation.copies import Copies
    from sfumato.attack.evaluation.learning import Learned
    from sfumato.attack.evaluation.measures import Distance, Range


FOR_THE_OWNER = "for the owner: computed from the original"


@dataclass(frozen=True)
class ComparedColumn:
    """One column: how often each of its codes occurs in either table, and what is wrong with it."""

    coding: Coding
    original: tuple[int, ...]
    synthetic: tuple[int, ...]
    distance: Distance
    malformed: int = 0
    """Cells of the synthetic table that are not of the column's kind."""

    @property
    def name(self) -> str:
        """The column."""
        return self.coding.name

    @property
    def outside(self) -> int:
        """Synthetic rows with a value that the schema does not declare."""
        return self.synthetic[self.coding.outside] if self.coding.declared else 0

    @property
    def gaps(self) -> int:
        """Synthetic rows without a value where the schema allows none to be missing."""
        missing = self.synthetic[self.coding.missing]
        return 0 if self.coding.nullable else missing - self.malformed

    def json(self) -> dict[str, Any]:
        """All of it but the counts, ready to be written."""
        return {
            "name": self.name,
            "tvd": self.distance.tvd,
            "tvd_floor": self.distance.floor,
            "outside": self.outside,
            "missing_undeclared": self.gaps,
            "malformed": self.malformed,
            "coded": self.coding.told or "as it is",
        }


@dataclass(frozen=True)
class ComparedPair:
    """Two columns: how they hang together in either table, and where they differ most."""

    columns: tuple[str, str]
    distance: Distance
    propensity: float
    association: tuple[float, float]
    """Cramér's V in the original and in the synthetic table."""
    correlation: tuple[float | None, float | None] | None
    """Pearson's, of two ordered columns."""
    furthest: Range
    """The cell in which the shares are furthest apart."""
    fabricated: Range | None
    """The largest cell that the original does not have."""


@dataclass(frozen=True)
class Sets:
    """Sets of so many columns: how many were looked at, of how many, and their mean."""

    looked_at: int
    of: int
    mean: Distance


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """A synthetic table beside its original: how near it is, and what it gives away.

    It is computed from the original without any noise, so it is for the owner alone.
    """

    rows: tuple[int, int]
    columns: tuple[ComparedColumn, ...]
    sets: Mapping[int, Sets]
    pairs: tuple[ComparedPair, ...]
    ranges: tuple[Range, ...]
    copies: Copies
    told_apart: float | None
    learned: Learned | None
    remarks: tuple[str, ...]
    """What differs in form: columns that lack, kinds that are others, values not declared."""
    files: tuple[Path, ...] = ()
    """What it was made from, which no report may replace."""
    paths: ComparedPaths | None = None
    """What was found of paths, where rows are points of them."""

    @property
    def propensity(self) -> float | None:
        """The mean over pairs of columns; 1 is as good as rows drawn from the original."""
        return _mean([pair.propensity for pair in self.pairs])

    @property
    def association_error(self) -> float | None:
        """How far Cramér's V of a pair is off on average."""
        return _mean([abs(pair.association[0] - pair.association[1]) for pair in self.pairs])

    @property
    def worst_pairs(self) -> list[ComparedPair]:
        """The pairs, that which is furthest from what is expected first."""
        return sorted(self.pairs, key=lambda pair: pair.distance.floor - pair.distance.tvd)

    def tvd(self, columns: int) -> float | None:
        """The mean total variation over sets of so many columns."""
        sets = self.sets.get(columns)
        return None if sets is None else sets.mean.tvd

    def json(self) -> dict[str, Any]:
        """All of it, ready to be written."""
        sizes = (1, 2, 3)
        return {
            "tvd": {str(size): self.tvd(size) for size in sizes},
            "propensity": self.propensity,
            "copies": self.copies.json(),
            "learn": None if self.learned is None else self.learned.json(),
            "for": FOR_THE_OWNER,
            "rows": {"original": self.rows[0], "synthetic": self.rows[1]},
            "tvd_floor": {
                str(size): self.sets[size].mean.floor if size in self.sets else None
                for size in sizes
            },
            "combinations": {
                str(size): {
                    "fabricated": columns.mean.fabricated,
                    "lost": columns.mean.lost,
                    "expected": columns.mean.unseen,
                    "sets": columns.looked_at,
                    "sets_in_all": columns.of,
                }
                for size, columns in self.sets.items()
            },
            "associations": {
                "mean_difference": self.association_error,
                "pairs": [_pair(pair) for pair in self.pairs],
            },
            "ranges": {
                "questions": len(self.ranges),
                "error": _mean([query.error for query in self.ranges]),
                "largest": max((query.error for query in self.ranges), default=None),
            },
            "told_apart": self.told_apart,
            "columns": [column.json() for column in self.columns],
            "remarks": list(self.remarks),
            **({} if self.paths is None else {"paths": self.paths.json()}),
        }

    def report(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write it as a page for people; it is for the owner, and only the owner may read it."""
        from sfumato.attack.evaluation.page import page

        target = arguments.path(path, "path")
        check_target(target, overwrite=overwrite, kept=self.files)
        with whole(target, overwrite=overwrite, private=True) as temporary:
            temporary.write_text(page(self), encoding="utf-8")

    def _card(self) -> Card:
        facts: dict[str, Any] = {}
        if self.paths is not None:
            facts |= {
                f"paths, {name}": f"{figure:.3f}" for name, figure in self.paths.figures.items()
            }
        facts |= {
            f"total variation of {size}": f"{columns.mean.tvd:.4f}, of a fresh sample "
            f"{columns.mean.floor:.4f}"
            for size, columns in self.sets.items()
        }
        facts["propensity"] = self.propensity
        facts["copies"] = f"{self.copies.exact:,}, expected {self.copies.expected:,.0f}"
        if self.told_apart is not None:
            facts["told apart"] = self.told_apart
        if self.learned is not None:
            learned = self.learned
            facts[f"learning {learned.target}"] = (
                f"{learned.synthetic:.1%} right, from the original {learned.real:.1%}"
            )
        rows = [
            (
                column.name,
                column.distance.tvd,
                column.distance.floor,
                column.outside + column.malformed,
            )
            for column in self.columns
        ]
        titles = ("Column", "Total variation", "Of a fresh sample", "Not declared")
        line = (
            f"{count(self.rows[1], 'synthetic row')} against {self.rows[0]:,} of the original, "
            f"{count(len(self.columns), 'column')}"
        )
        return Card(line, facts, CardTable(titles, rows), [f"{FOR_THE_OWNER}.", *self.remarks])


def _mean(numbers: list[float]) -> float | None:
    return sum(numbers) / len(numbers) if numbers else None


def _pair(pair: ComparedPair) -> dict[str, Any]:
    original, synthetic = pair.association
    summary: dict[str, Any] = {
        "columns": list(pair.columns),
        "tvd": pair.distance.tvd,
        "propensity": pair.propensity,
        "original": original,
        "synthetic": synthetic,
    }
    if pair.correlation is not None:
        summary["correlation"] = dict(zip(("original", "synthetic"), pair.correlation, strict=True))
    return summary


@dataclass(frozen=True)
class ComparedPaths:
    """Paths of either table: how far answers differ, and where their points lie."""

    many: tuple[int, int]
    """How many there are in the original and in the synthetic table."""
    figures: Mapping[str, float]
    """By name; 0 is best but for patterns, where 1 is."""
    maps: tuple[FloatArray, FloatArray]
    """The share of points in each cell of the declared box, from south to north, west to east."""

    def json(self) -> dict[str, Any]:
        """The figures, ready to be written."""
        return {"original": self.many[0], "synthetic": self.many[1], **self.figures}
