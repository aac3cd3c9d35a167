"""Synthesis by dpmm, told the domains, so that nothing of its charge goes into binning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.peers.synthetic import DELTA, report
from dpmm.pipelines import (  # type: ignore[import-not-found]  # in its own environment
    AIMPipeline,
    MSTPipeline,
    PrivBayesPipeline,
)

if TYPE_CHECKING:
    import pandas as pd

METHODS = {"mst": MSTPipeline, "aim": AIMPipeline, "privbayes": PrivBayesPipeline}


def make(frame: pd.DataFrame, sizes: dict[str, int], method: str, epsilon: float) -> pd.DataFrame:
    """Fit and draw as many rows."""
    model = METHODS[method](epsilon=epsilon, delta=DELTA, disable_processing=True, n_jobs=2)
    model.fit(frame, domain=sizes)
    made: pd.DataFrame = model.generate(n_records=len(frame))
    return made


if __name__ == "__main__":
    report(make)
