"""Programs on blocks: GUPT's curves of accuracy against epsilon and blocks, and a million rows.

    python -m bench.programs

Public tables of about the size of GUPT's (26,733 rows) are cut into blocks as in a vault. Accuracy
is that of the aggregate alone, with programs run in this process: what the sandbox adds is time.
The last line runs the real thing.
"""

from __future__ import annotations

import tempfile
import time
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import csv

import sfumato as sf
from sfumato.methods.programs.aggregate import Aggregate
from sfumato.methods.programs.blocks import Cut
from sfumato.methods.programs.outputs import read_outputs
from sfumato.methods.programs.templates import template
from sfumato.methods.programs.templates.estimator import estimator
from sfumato.methods.programs.templates.kmeans import kmeans
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Iterator

DATA = Path(__file__).parents[2] / "shared" / "data"
EPSILONS = (Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4), Fraction(8))
BLOCKS = (10, 30, 70, 200)
"""41,188 and 48,842 people to the power of 0.4 are 70 and 75."""
TIMES = 20


def customers() -> pa.Table:
    """Bank customers by the interest rate and the consumers' confidence of their day, 0 to 1."""
    rows = csv.read_csv(DATA / "tabular" / "bank_marketing.csv.gz")
    ends = {"euribor3m": (0, 6), "cons.conf.idx": (-60, -20)}
    cells = [(rows[name].to_numpy() - low) / (high - low) for name, (low, high) in ends.items()]
    return pa.table({"rate": cells[0], "confidence": cells[1]})


def earners() -> pa.Table:
    """Adult: six inputs within -1 and 1, and whether somebody earns more than 50,000."""
    rows = csv.read_csv(DATA / "adult_coded" / "adult.csv")
    code = {name: rows[name].to_numpy() for name in rows.column_names}
    inputs = {name: code[name] / half - 1.0 for name, half in
              (("age", 42), ("education-num", 7.5), ("hours-per-week", 49))}  # fmt: skip
    is_so = {"man": code["sex"] == 1, "married": code["marital-status"] == 0,
             "gains": code["capital-gain"] > 0}  # fmt: skip
    inputs |= {name: 2.0 * told - 1 for name, told in is_so.items()}
    return pa.table({**inputs, "y": code["income>50K"]})


def read(rows: pa.Table, low: float, high: float) -> sf.Table:
    """A table each of whose rows is a person, with the same bounds for every column."""
    kinds = {pa.float64(): "real", pa.int64(): "integer"}
    schema = "table = 'r'\nunit = 'row'\n" + "".join(
        f"[columns.'{one.name}']\nkind = '{kinds[one.type]}'\nbounds = [{low}, {high}]\n"
        for one in rows.schema
    )
    path = Path(tempfile.mkdtemp()) / "r.toml"
    path.write_text(schema)
    return sf.read(rows, schema=path)


def released(
    program: Any, rows: pa.Table, ends: list[tuple[float, float]], blocks: int, ranges: str
) -> Iterator[list[list[float]]]:
    """What leaves for each epsilon, many times; the blocks are cut and run once."""
    with read(rows, -1, 1) as table:
        cut = Cut(tuple(table.schema.columns), sf.Rows(), blocks)
        dealt = cut.blocks_of(table.engine, table.engine.table, f"salt {blocks}")
    outputs = np.array([_tried(program, one, len(ends)) for one in dealt])
    for epsilon in EPSILONS:
        aggregate = Aggregate(
            outputs=read_outputs(ends),
            epsilon=epsilon,
            blocks=blocks,
            repeats=1,
            relation=sf.Rows().relation,
            ranges=ranges,
        )
        entropy = SystemEntropy()
        many = [aggregate.release(outputs, entropy) for _ in range(TIMES)]
        yield [[one.value for one in run] for run in many]


def _tried(program: Any, rows: pa.Table, width: int) -> list[float]:
    """What a block gives; one that fails, of a single label for example, gives nothing."""
    try:
        found: list[float] = program(rows)
    except ValueError:
        return [np.nan] * width
    return found


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
    print(f"\n{title}: {best:.4f} without privacy\n")
    print("| blocks | ranges | " + " | ".join(f"epsilon {float(one):g}" for one in EPSILONS) + " |")
    print("|---" * (len(EPSILONS) + 2) + "|")
    for blocks in BLOCKS:
        for ranges in ("tight", "loose"):
            found = released(program, rows, ends, blocks, ranges=ranges)
            cells = (f"{np.mean([score(rows, one) for one in many]):.4f}" for many in found)
            print(f"| {blocks} | {ranges} | " + " | ".join(cells) + " |")


def million() -> None:
    """A regression of a million rows on 100 blocks, through the vault and the sandbox."""
    rng = np.random.default_rng(2)
    x = rng.uniform(0, 10, (1_000_000, 2))
    y = np.clip(1 + x @ [2.0, -1.0] + rng.normal(0, 1, 1_000_000), -20, 30)
    table = read(pa.table({"a": x[:, 0], "b": x[:, 1], "y": y}), -20, 30)
    private = sf.protect(table, epsilon=5)
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
    table("k-means, mean squared distance", kmeans, customers(), [(0, 1)] * 6, variance)
    table("logistic regression, accuracy", estimator, earners(), [(-4, 4)] * 7, accuracy)
    million()


if __name__ == "__main__":
    main()
