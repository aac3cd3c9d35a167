"""Synthesis by smartnoise-synth; the columns are said to be codes, so nothing goes into bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.peers.synthetic import DELTA, report
from snsynth import Synthesizer  # type: ignore[import-not-found]  # in its own environment

if TYPE_CHECKING:
    import pandas as pd


def make(frame: pd.DataFrame, sizes: dict[str, int], method: str, epsilon: float) -> pd.DataFrame:
    """Fit and draw as many rows."""
    model = Synthesizer.create(method, epsilon=epsilon, delta=DELTA)
    model.fit(frame, categorical_columns=list(sizes), preprocessor_eps=0.0)
    made: pd.DataFrame = model.sample(len(frame))
    return made


if __name__ == "__main__":
    report(make)
