"""Synthesis by DataSynthesizer: a network of at most two parents; domains are from the data."""

from __future__ import annotations

import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from bench.peers.synthetic import report
from DataSynthesizer.DataDescriber import (  # type: ignore[import-not-found]
    DataDescriber,
)
from DataSynthesizer.DataGenerator import (  # type: ignore[import-not-found]
    DataGenerator,
)

if TYPE_CHECKING:
    import pandas as pd


def make(frame: pd.DataFrame, sizes: dict[str, int], method: str, epsilon: float) -> pd.DataFrame:
    """Describe the table and generate as many rows."""
    del method
    with TemporaryDirectory() as folder:
        description = str(Path(folder) / "description.json")
        describer = DataDescriber(category_threshold=max(sizes.values()) + 1)
        describer.describe_dataset_in_correlated_attribute_mode(
            dataset_file=sys.argv[1],
            k=2,
            epsilon=epsilon,
            attribute_to_is_categorical=dict.fromkeys(frame.columns, True),
            attribute_to_is_candidate_key=dict.fromkeys(frame.columns, False),
        )
        describer.save_dataset_description_to_file(description)
        generator = DataGenerator()
        generator.generate_dataset_in_correlated_attribute_mode(len(frame), description)
        made: pd.DataFrame = generator.synthetic_dataset
    return made


if __name__ == "__main__":
    report(make)
