"""Programs on blocks: GUPT's curves of accuracy against epsilon and blocks, and a million rows.

    python -m bench.programs

Accuracy is that of the aggregate alone, with programs run in this process: what the sandbox adds is
time. The last table runs the real thing.
"""

from __future__ import annotations

import time
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.noise.entropy import SystemEntropy
from sfumato.privacy.units import Neighbours
from sfumato.programs.aggregate import Aggregate
from sfumato.programs.outputs import read_outputs
from sfumato.programs.templates.estimator import estimator
from sfumato.programs.templates.kmeans import kmeans

if TYPE_CHECKING:
    from collections.abc import Iterator

EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(8))
BLOCKS = (10, 40, 100, 250)
TIMES = 20


def points(rows: int, rng: Any) -> pa.Table:
    """Three clusters in a plane, of unequal sizes."""
    which = rng.choice(3, rows, p=[0.5, 0.3, 0.2])
    centres = np.array([[2.0, 8.0], [5.0, 2.0], [9.0, 6.0]])
    found = np.clip(centres[which] + rng.normal(0, 0.7, (rows, 2)), 0, 10)
    return pa.table({"x": found[:, 0], "y": found[:, 1]})


def labelled(rows: int, rng: Any) -> pa.Table:
    """Ten inputs, of which a logistic model makes the last column."""
    inputs = rng.normal(0, 1, (rows, 10))
    weights = np.linspace(-1.5, 1.5, 10)
    told = inputs @ weights + rng.logistic(0, 1, rows) > 0
    columns = {f"x{place}": inputs[:, place] for place in range(10)}
    return pa.table({**columns, "y": told.astype(np.int64)})


def released(
    program: Any, rows: pa.Table, ends: list[tuple[float, float]], blocks: int, **how: Any
) -> Iterator[list[list[float]]]:
    """What leaves for each epsilon, many times; the blocks are run once."""
    dealt = np.random.default_rng(7).integers(0, blocks, rows.num_rows)
    outputs = np.array([program(rows.filter(dealt == one)) for one in range(blocks)])
    for epsilon in EPSILONS:
        aggregate = Aggregate(
            outputs=read_outputs(ends),
            epsilon=epsilon,
            blocks=blocks,
            repeats=1,
            relation=Neighbours.ADD_REMOVE,
            **how,
        )
        entropy = SystemEntropy()
        many = [aggregate.release(outputs, entropy) for _ in range(TIMES)]
        yield [[one.value for one in run] for run in many]


def variance(rows: pa.Table, centres: Any) -> float:
    """The mean squared distance to the nearest centre."""
    at = np.column_stack([one.to_numpy() for one in rows.columns])
    return float(((at[:, None] - np.reshape(centres, (-1, 2))) ** 2).sum(axis=2).min(axis=1).mean())


def accuracy(rows: pa.Table, weights: Any) -> float:
    """The share of labels that a model tells right."""
    inputs = np.column_stack([one.to_numpy() for one in rows.columns[:-1]])
    told = inputs @ np.asarray(weights[:-1]) + weights[-1] > 0
    return float((told == rows["y"].to_numpy()).mean())


def table(title: str, program: Any, rows: pa.Table, ends: Any, score: Any) -> None:
    """One line for each number of blocks and way to the range."""
    best = score(rows, program(rows))
    print(f"\n{title}: {best:.3f} without privacy\n")
    print("| blocks | ranges | " + " | ".join(f"epsilon {float(one):g}" for one in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 2) + "|")
    for blocks in BLOCKS:
        for ranges in ("tight", "loose"):
            found = released(program, rows, ends, blocks, ranges=ranges)
            cells = (f"{np.mean([score(rows, one) for one in many]):.3f}" for many in found)
            print(f"| {blocks} | {ranges} | " + " | ".join(cells) + " |")


def million() -> None:
    """A regression of a million rows on 100 blocks, through the vault and the sandbox."""
    import tempfile
    from pathlib import Path

    import sfumato as sf
    from sfumato.programs.templates import template

    rng = np.random.default_rng(2)
    x = rng.uniform(0, 10, (1_000_000, 2))
    y = np.clip(1 + x @ [2.0, -1.0] + rng.normal(0, 1, 1_000_000), -20, 30)
    rows = pa.table({"a": x[:, 0], "b": x[:, 1], "y": y})
    schema = "table = 'r'\nunit = 'row'\n" + "".join(
        f"[columns.{name}]\nkind = 'real'\nbounds = [{low}, {high}]\n"
        for name, low, high in (("a", 0, 10), ("b", 0, 10), ("y", -20, 30))
    )
    path = Path(tempfile.mkdtemp()) / "r.toml"
    path.write_text(schema)
    private = sf.protect(sf.read(rows, schema=path), epsilon=5)
    begun, spent = time.perf_counter(), time.process_time()
    answer = private.run(
        template("regression"),
        function="regression",
        output=[(-5, 5)] * 3,
        epsilon=1,
        blocks=100,
        seconds=0.1,
    )
    took, cpu = time.perf_counter() - begun, time.process_time() - spent
    told = ", ".join(f"{one:.2f}" for one in answer.values)
    print(f"\n1,000,000 rows, 100 blocks: {took:.1f} s, {cpu:.1f} s of this process; gave {told}")


def main() -> None:
    """All tables."""
    rng = np.random.default_rng(1)
    clusters, labels = points(30_000, rng), labelled(30_000, rng)
    table("k-means, mean squared distance", kmeans, clusters, [(0, 10)] * 6, variance)
    table("logistic regression, accuracy", estimator, labels, [(-4, 4)] * 11, accuracy)
    million()


if __name__ == "__main__":
    main()
