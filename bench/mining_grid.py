"""Which model at which number of rows and epsilon: the share of classes that each tells rightly.

One table is generated, the other is drawn from Adult (../shared/data). Every model learns from the
same rows and is scored on others. `python -m bench.mining_grid` measures all of it, the table of
docs/guide/learn.md; `make bench` the smaller half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench import _million
from bench._mining_sets import ADULT, DATA, adult_row
from bench.mining import EPSILONS, Score
from sfumato.methods.learn.catalogue import KINDS
from sfumato.vault.estimators import ESTIMATORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

REPEATS = {300: 10, 3_000: 5, 30_000: 3, 300_000: 1}
"""How often each number of rows is drawn: more rows vary less."""
SMALL = {300: 3, 3_000: 1}
HELD = 10_000
"""Rows that are held back to score on."""
MODELS = [kind for kind in ESTIMATORS if KINDS[kind].target == "class"]


def rows() -> Iterator[dict[str, object]]:
    """The smaller half: what is wrongly told."""
    for table, size, epsilon, scores in measured(SMALL):
        best = max(scores, key=lambda one: scores[one].mean)
        yield {
            "name": f"{table}, {size:,} rows, epsilon {epsilon:g}: wrong, by {best}",
            "value": 1 - scores[best].mean,
            "unit": "",
        }


def measured(
    sizes: Mapping[int, int],
) -> Iterator[tuple[str, int, float, dict[str, Score]]]:
    """The scores of every model, for each table, number of rows and epsilon."""
    for name, (features, target, bounds) in tables(max(sizes) + HELD).items():
        for size, repeats in sizes.items():
            for epsilon in EPSILONS:
                found: dict[str, list[float]] = {kind: [] for kind in MODELS}
                for repeat in range(repeats):
                    order = np.random.default_rng(repeat).permutation(len(target))
                    learn, held = order[:size], order[-HELD:]
                    for kind in MODELS:
                        told: dict[str, Any] = {"epsilon": epsilon, "bounds": bounds, "rows": size}
                        model = ESTIMATORS[kind](**told, classes=[0, 1])
                        model.fit(features.take(pa.array(learn)), target[learn])
                        right = model.predict(features.take(pa.array(held))) == target[held]
                        found[kind].append(float(np.mean(right)))
                yield name, size, epsilon, {kind: Score.of(one) for kind, one in found.items()}


def tables(rows: int) -> dict[str, tuple[pa.Table, np.ndarray, dict[str, Any]]]:
    """Features, the class of each row, and what is declared."""
    made = _million.table(rows, seed=2)
    declared = _million.schema(None)
    bounds: dict[str, Any] = {name: declared.column(name).domain for name in _million.FEATURES}
    target = made["outcome"].to_numpy()
    found: dict[str, tuple[pa.Table, np.ndarray, dict[str, Any]]] = {
        "generated": (made.select(_million.FEATURES), target, bounds)
    }
    file = DATA / "adult_large" / "adult_1200k.parquet"
    if file.exists():
        people = pq.read_table(file).slice(0, rows).to_pylist()
        numbers = np.array(list(map(adult_row, people)), dtype=np.float64)
        features = pa.table(list(numbers[:, :-1].T), names=list(ADULT))
        found["adult"] = features, numbers[:, -1].astype(np.int64), dict(ADULT)
    return found


def main() -> None:
    """Print the whole table."""
    print("| table | rows | epsilon |", " | ".join(MODELS), "|")
    print("|---|---|---|" + "---|" * len(MODELS))
    for name, size, epsilon, scores in measured(REPEATS):
        best = max(one.mean for one in scores.values())
        cells = [
            f"**{one.mean:.3f}**" if one.mean == best else f"{one.mean:.3f}"
            for one in scores.values()
        ]
        print(f"| {name} | {size:,} | {epsilon:g} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main()
