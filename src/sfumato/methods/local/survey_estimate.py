"""What a survey found: the share of each choice with its error, and what was rejected."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.filesystem import write_text
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sfumato.methods.local.mechanism import Oracle
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.methods.local.rounds import Round

_WITHIN_95 = 1.959963984540054


@dataclass(frozen=True, repr=False)
class SurveyEstimate(Shown):
    """Estimated shares of the choices among the people who answered.

    A share is unbiased, so a rare choice may come out below 0. `sd` is that of the randomness of
    reports alone: how well those who answered stand for others is not in it.
    """

    round: Round
    n: int
    rejected: Mapping[str, int]
    closed: str | None
    table: pa.Table
    """Columns value, share, sd and bound95; without reports the last three are null."""

    @classmethod
    def of(
        cls,
        asked: Round,
        sketches: Sequence[tuple[Oracle, ReportSketch]],
        rejected: Mapping[str, int],
        closed: str | None,
    ) -> SurveyEstimate:
        """Add up the numbers of people that each way of reporting estimates without bias."""
        n = sum(sketch.n for _, sketch in sketches)
        people, variance = np.zeros(len(asked.choices)), np.zeros(len(asked.choices))
        for mechanism, sketch in sketches:
            estimate = mechanism.estimate(sketch)
            people += sketch.n * estimate["share"].to_numpy()
            variance += (sketch.n * estimate["sd"].to_numpy()) ** 2
        columns: dict[str, Any] = {"value": list(asked.choices)}
        if n:
            sd = np.sqrt(variance) / n
            columns |= {"share": people / n, "sd": sd, "bound95": _WITHIN_95 * sd}
        else:
            missing = pa.nulls(len(asked.choices), pa.float64())
            columns |= dict.fromkeys(("share", "sd", "bound95"), missing)
        return cls(asked, n, dict(rejected), closed, pa.table(columns))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        rows = self.table.to_pylist()
        return {
            "round": self.round.id,
            "question": self.round.question,
            "n": self.n,
            "rejected": sum(self.rejected.values()),
            "rejected_by_reason": dict(sorted(self.rejected.items())),
            "mechanism": self.round.mechanism,
            "epsilon": float(self.round.epsilon),
            "closed": self.closed,
            "estimate": {
                row["value"]: {name: row[name] for name in ("share", "sd", "bound95")}
                for row in rows
            },
        }

    def bars(self) -> list[tuple[str, float, float, float]]:
        """Each choice with its share and where the truth is in 95 % of cases."""
        return [
            (
                row["value"],
                row["share"],
                row["share"] - row["bound95"],
                row["share"] + row["bound95"],
            )
            for row in self.table.to_pylist()
            if row["share"] is not None and math.isfinite(row["share"])
        ]

    def save_report(self, path: Path, *, overwrite: bool = False) -> None:
        """Write it as a page with its picture, that needs nothing but itself."""
        from sfumato.methods.local.survey_page import ShownResult, result_report

        shown = ShownResult(self.bars(), self.n, self.rejected, self.closed)
        page = result_report(self.round.question, str(self.round.epsilon), shown)
        write_text(path, page, overwrite=overwrite)

    def _card(self) -> Card:
        turned = sum(self.rejected.values())
        rows = [
            [row["value"], row["share"], row["bound95"]]
            for row in self.table.slice(0, 10).to_pylist()
        ]
        return Card(
            line=f"{self.n:,} answers to {self.round.question!r}, {turned:,} rejected",
            facts={
                "mechanism": self.round.mechanism,
                "epsilon": str(self.round.epsilon),
                "closed": self.closed or "no",
            },
            table=CardTable(
                ("choice", "share", "95 % interval"),
                rows,
                hidden_rows=max(0, self.table.num_rows - 10),
            ),
        )
