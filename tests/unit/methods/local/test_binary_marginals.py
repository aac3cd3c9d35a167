"""Tables of yes-or-no columns from one bit of each person."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SourceError
from sfumato.testing.entropy import SeededEntropy

COLUMNS = list("abcdefgh")


def test_the_published_variance() -> None:
    oracle = sf.local.marginals(COLUMNS, epsilon="1.1", width=2)
    assert oracle.sets == 36
    assert oracle.variance(2**18) == pytest.approx(1.0278e-4, rel=5e-5)


def people(count: int) -> np.ndarray:
    """Column b says what a says, c its opposite; d has one yes in four; the others are fair."""
    bits = np.arange(count)[:, None] // 3 ** np.arange(8) % 2
    bits[:, 1], bits[:, 2] = bits[:, 0], 1 - bits[:, 0]
    bits[:, 3] = np.arange(count) % 4 == 0
    return bits


def test_tables_come_out_within_their_sd() -> None:
    oracle = sf.local.marginals(COLUMNS, epsilon=2, width=2)
    truth = people(2**17)
    sketch = oracle.sketch(oracle.randomize(truth, SeededEntropy(4)))
    off = []
    for one in oracle.estimate(sketch).to_pylist():
        places = [COLUMNS.index(name) for name in one["columns"]]
        share = (truth[:, places] == one["answers"]).all(axis=1).mean()
        off.append((one["share"] - share) / one["sd"])
    assert len(off) == 28 * 4
    assert np.abs(off).max() < 5
    assert 0.7 < np.sqrt(np.mean(np.square(off))) < 1.3
    alone = oracle.marginal(sketch, ["d"]).to_pylist()
    assert sum(one["share"] for one in alone) == pytest.approx(1)
    assert abs(alone[1]["share"] - 0.25) < 5 * alone[1]["sd"]


def test_dividing_by_those_who_drew_the_set_has_the_variance_that_is_told() -> None:
    """With n / T in place of their number, it would be (T c^2 - 1) / n: five times the sd here."""
    oracle = sf.local.marginals(["a", "b"], epsilon=4, width=2)
    truth = np.ones((3_000, 2), dtype=int)
    entropy = SeededEntropy(9)
    found = [
        oracle.marginal(oracle.sketch(oracle.randomize(truth, entropy)), ["a", "b"]).to_pylist()[3]
        for _ in range(200)
    ]
    told = np.mean([one["sd"] for one in found])
    assert np.std([one["share"] for one in found]) == pytest.approx(told, rel=0.25)


def test_sketches_merge_and_engines_count_the_same() -> None:
    oracle = sf.local.marginals(["a", "b", "c"], epsilon=1, width=3)
    reports = oracle.randomize(people(5_000)[:, :3], SeededEntropy(2))
    whole = oracle.sketch(reports)
    halves = oracle.sum_rows(reports.rows[:999]) + oracle.sum_rows(reports.rows[999:])
    assert whole == halves == oracle.sketch(reports.to_arrow())


def test_tables_of_arrow_are_read_by_name() -> None:
    oracle = sf.local.marginals(["a", "b"], epsilon=20, width=2)
    values = pa.table({"b": [1] * 400, "other": [7] * 400, "a": [0] * 400})
    found = oracle.marginal(oracle.sketch(oracle.randomize(values)), ["a", "b"]).to_pylist()
    assert max(found, key=lambda one: one["share"])["b"] == 1
    assert found[2]["a"] == 0
    with pytest.raises(ParameterError):
        oracle.randomize(values.drop(["a"]))


@pytest.mark.parametrize("values", [[[0, 2]], [[0, 1, 1]], [["x", "y"]], [[0.5, 1]], [0, 1, 1]])
def test_answers_other_than_yes_or_no_are_refused(values: object) -> None:
    with pytest.raises(ParameterError) as raised:
        sf.local.marginals(["a", "b"], epsilon=1).randomize(values)
    assert raised.value.code == "parameter_type_wrong"


def test_a_set_that_nobody_drew_is_told() -> None:
    oracle = sf.local.marginals(COLUMNS, epsilon=1)
    sketch = oracle.sketch(oracle.randomize(people(2)))
    with pytest.raises(SourceError) as raised:
        oracle.estimate(sketch)
    assert raised.value.code == "estimate_not_possible"


@pytest.mark.parametrize(
    ("columns", "width"),
    [(["a", "a"], 1), ([], 1), (["a", "b"], 3), (["a", "b"], 0), ([f"c{n}" for n in range(62)], 5)],
)
def test_what_cannot_be_asked_is_refused(columns: list[str], width: int) -> None:
    with pytest.raises(ParameterError) as raised:
        sf.local.marginals(columns, epsilon=1, width=width)
    assert raised.value.code == "parameter_out_of_range"


def test_columns_that_were_not_declared_have_no_table() -> None:
    oracle = sf.local.marginals(["a", "b", "c"], epsilon=1, width=2)
    sketch = oracle.sketch(oracle.randomize(people(500)[:, :3]))
    for wrong in (["z"], ["a", "b", "c"], ["a", "a"], []):
        with pytest.raises(ParameterError):
            oracle.marginal(sketch, wrong)
    assert math.isfinite(oracle.marginal(sketch, ["c", "a"])["sd"][0].as_py())
