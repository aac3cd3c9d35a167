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
    """One column: the counts of its codes in either table, their distance, and its errors."""

    coding: Coding
    original: tuple[int, ...]
    synthetic: tuple[int, ...]
    distance: Distance
    malformed: int = 0
    """Cells of the synthetic table that are not of the column's kind."""

    @property
    def name(self) -> str:
        """The name of the column."""
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
        """Return it without the counts, as plain data for JSON."""
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
    """Two columns: their association in either table, and where the tables differ most."""

    columns: tuple[str, str]
    distance: Distance
    propensity: float
    association: tuple[float, float]
    """Cramér's V in the original and in the synthetic table."""
    correlation: tuple[float | None, float | None] | None
    """Pearson's correlation in either table, of two ordered columns."""
    furthest: Range
    """The cell with the largest difference of shares."""
    fabricated: Range | None
    """The largest cell that the original does not have."""


@dataclass(frozen=True)
class Sets:
    """Sets of columns of one size: how many were compared, of how many, and the mean distance."""

    looked_at: int
    of: int
    mean: Distance


@dataclass(frozen=True, repr=False)
class Evaluation(Shown):
    """The comparison of a synthetic table with its original.

    It is computed from the original without noise, so it is for the owner only.

    Attributes
    ----------
    rows
        The rows of the original and of the synthetic table.
    columns, pairs
        Each column and each compared pair, with their distances.
    sets
        The mean distance over sets of one, two and three columns, by their size.
    ranges
        Range queries with the answers of both tables.
    copies
        Synthetic rows that are equal to rows of the original, and the number expected by chance.
    told_apart
        The area under the ROC curve of a classifier that separates both tables: 0.5 is best. None
        without scikit-learn.
    learned
        What models learn about the target; None without a target.
    remarks
        Differences in form: missing columns, other kinds, undeclared values.
    files
        The compared files, which no report may overwrite.
    paths
        The comparison of trajectories, if rows are their points.

    Example
    -------
    >>> evaluation = sf.evaluate(synthetic, people)  # doctest: +SKIP
    >>> evaluation.tvd(2), evaluation.sets[2].mean.floor  # doctest: +SKIP
    >>> evaluation.report("evaluation.html")  # doctest: +SKIP
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
    files: tuple[Path, ...] = ()
    paths: ComparedPaths | None = None

    @property
    def propensity(self) -> float | None:
        """The mean pMSE ratio over pairs of columns; 1 is as good as a fresh sample."""
        return _mean([pair.propensity for pair in self.pairs])

    @property
    def association_error(self) -> float | None:
        """The mean difference of Cramér's V over pairs of columns."""
        return _mean([abs(pair.association[0] - pair.association[1]) for pair in self.pairs])

    @property
    def worst_pairs(self) -> list[ComparedPair]:
        """The pairs, sorted by their distance beyond that of a fresh sample, the worst first."""
        return sorted(self.pairs, key=lambda pair: pair.distance.floor - pair.distance.tvd)

    def tvd(self, columns: int) -> float | None:
        """Return the mean total variation distance over sets of 1, 2 or 3 columns.

        Parameters
        ----------
        columns
            The size of the sets.

        Returns
        -------
        float or None
            The share of rows that would have to move; None if no such set was compared.
        """
        sets = self.sets.get(columns)
        return None if sets is None else sets.mean.tvd

    def k_marginal(self, columns: int) -> float | None:
        """NIST's judge by its published formula: 1000 (1 - total variation), 1000 is best.

        It is the mean over the sets of so many columns that were looked at, on the codes of this
        evaluation; NIST's software, SDNist, bins columns in ways of its own.
        """
        apart = self.tvd(columns)
        return None if apart is None else 1000 * (1 - apart)

    def json(self) -> dict[str, Any]:
        """Return it as plain data for JSON."""
        sizes = (1, 2, 3)
        return {
            "tvd": {str(size): self.tvd(size) for size in sizes},
            "k_marginal": {str(size): self.k_marginal(size) for size in sizes[1:]},
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
        """Write the evaluation as an HTML page that only the owner may read (mode 0600).

        Parameters
        ----------
        path
            The file to write.
        overwrite
            Whether to replace an existing file; compared files are never replaced.

        Raises
        ------
        OutputError
            If the file exists, cannot be written, or is one of the compared files.
        """
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
        if (marginal := self.k_marginal(2)) is not None:
            facts["k-marginal of 2, by formula"] = f"{marginal:.0f} of 1000"
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
    """Trajectories of either table: differences of figures, and the density of points."""

    many: tuple[int, int]
    """The number of trajectories in the original and in the synthetic table."""
    figures: Mapping[str, float]
    """Differences by name; 0 is best, except for patterns, where 1 is."""
    maps: tuple[FloatArray, FloatArray]
    """The share of points in each cell of the declared box, from south to north, west to east."""

    def json(self) -> dict[str, Any]:
        """Return the figures as plain data for JSON."""
        return {"original": self.many[0], "synthetic": self.many[1], **self.figures}
