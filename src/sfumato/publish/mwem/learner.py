"""The tables that learn from answers: everything here happens after the noise."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.publish.mwem.queries import Queries


@dataclass
class Learner:
    """One table for each run, the answers it has heard, and the sum of the tables after each."""

    queries: Queries
    tables: NDArray[np.float64]
    totals: NDArray[np.float64]
    chosen: NDArray[np.int64]
    measured: NDArray[np.float64]
    heard: NDArray[np.int64]
    sums: NDArray[np.float64]
    replays: int = 0
    """How often all answers are gone through when a new one came; 0 uses each answer once."""

    @classmethod
    def even(
        cls, queries: Queries, shape: tuple[int, ...], noisy: NDArray[Any], rounds: int
    ) -> Learner:
        """Begin with even tables of these noisy totals, and room for as many answers."""
        runs = shape[0]
        totals = np.maximum(noisy.astype(np.float64), 1.0).reshape(-1, *[1] * (len(shape) - 1))
        tables = np.full(shape, totals / np.prod(shape[1:]))
        return cls(
            queries,
            tables,
            totals,
            np.zeros((runs, rounds), dtype=np.int64),
            np.zeros((runs, rounds)),
            np.zeros(runs, dtype=np.int64),
            np.zeros(shape),
        )

    @property
    def average(self) -> NDArray[np.float64]:
        """The average of the tables after each answer; the even table where none was heard."""
        heard = self.heard.reshape(self.totals.shape)
        return np.where(heard > 0, self.sums / np.maximum(heard, 1), self.tables)

    def guesses(self) -> NDArray[np.int64]:
        """What the tables answer to all queries, in whole rows."""
        return np.asarray(np.rint(self.queries.answers(self.tables)), dtype=np.int64)

    def hear(
        self, runs: NDArray[np.int64], chosen: NDArray[np.int64], measured: NDArray[Any]
    ) -> None:
        """Mend the tables of some runs by the noisy answer to one query each."""
        self.chosen[runs, self.heard[runs]] = chosen
        self.measured[runs, self.heard[runs]] = measured.astype(np.float64)
        self.heard[runs] += 1
        if not self.replays:
            self._mend(runs, self.heard[runs] - 1)
        for _ in range(self.replays):
            for turn in range(int(self.heard[runs].max())):
                those = runs[self.heard[runs] > turn]
                self._mend(those, np.full(len(those), turn))
        self.sums[runs] += self.tables[runs]

    def _mend(self, runs: NDArray[np.int64], turns: NDArray[np.int64]) -> None:
        """A(x) *= exp(q(x) (m - q(A)) / (2 n)), then back to the total n."""
        weights = self.queries.weights(self.chosen[runs, turns])
        tables, totals = self.tables[runs], self.totals[runs]
        axes = tuple(range(1, tables.ndim))
        guess = (weights * tables).sum(axis=axes, keepdims=True)
        # No true answer lies outside these, and so the exponent stays between -1 and 1.
        lowest = -totals if self.queries.signed else np.zeros_like(totals)
        answer = np.clip(self.measured[runs, turns].reshape(totals.shape), lowest, totals)
        tables *= np.exp(weights * ((answer - guess) / (2 * totals)))
        self.tables[runs] = tables * (totals / tables.sum(axis=axes, keepdims=True))
