"""Streams step by step: the truth without noise, as far off as stated with it, and resumable.

Statistical tests are seeded; for a fresh seed each would fail with probability at most 1e-6.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.counts import agrees

import sfumato as sf
from sfumato.data.schema.unit import Rows
from sfumato.errors import SourceError
from sfumato.methods.stream.catalogue import prepare
from sfumato.methods.stream.factorization import DyadicTree, SquareRoot
from sfumato.methods.stream.request import StreamRequest
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from pathlib import Path

CASES: list[dict[str, Any]] = [
    {"method": "tree", "periods": 37},
    {"method": "honaker", "periods": 37},
    {"method": "root", "periods": 37},
    {"method": "tree"},
    {"method": "honaker"},
    {"method": "root"},
    {"method": "segments-honaker", "periods": 37},
    *({"method": "tree", "window": window} for window in (1, 5, 8, 13)),
    *({"method": "honaker", "window": window} for window in (5, 8)),
    {"method": "root", "periods": 37, "window": 6},
]
STEPS = 37


def made(case: dict[str, Any], cells: int = 2, **cost: Any) -> Any:
    asked = {"cells": cells, **{name: one for name, one in case.items() if name != "method"}}
    told = price(**(cost or {"rho": "1/2"}))
    return prepare(StreamRequest(unit=Rows(), price=told, **asked), case["method"])


def truth(series: np.ndarray[Any, Any], window: int | None) -> np.ndarray[Any, Any]:
    sums = series.cumsum(axis=0)
    if window is not None:
        sums[window:] -= sums[:-window].copy()
    return sums


def stepped(method: Any, series: np.ndarray[Any, Any], seed: int = 1) -> list[Any]:
    """What each step tells; the state goes through JSON, as it does where it is kept."""
    entropy, found = SeededEntropy(seed), []
    state = method.begin(entropy)
    for counts in series:
        state, told = method.step(json.loads(json.dumps(state)), counts, entropy)
        found.append(told)
    return found


@pytest.mark.parametrize("case", CASES, ids=str)
def test_without_noise_every_step_tells_the_truth(
    case: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind in (Geometric, Gaussian):
        monkeypatch.setattr(kind, "steps", lambda _self, values, _entropy: np.asarray(values))
    series = np.arange(2 * STEPS).reshape(STEPS, 2) * 7 % 5
    told = stepped(made(case), series)
    found = np.array([one.values for one in told], dtype=np.float64)
    expected = truth(series, case.get("window"))
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize("cost", [{"epsilon": 2}, {"rho": "0.02"}], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_step_is_as_far_off_as_stated(case: dict[str, Any], cost: dict[str, Any]) -> None:
    runs = 600  # as many cells, each with noise of its own
    method = made(case, cells=runs, **cost)
    series = np.repeat((np.arange(STEPS) * 11 % 6)[:, None], runs, axis=1)
    told = stepped(method, series, seed=2)
    errors = np.array([one.values for one in told], dtype=np.float64)
    errors -= truth(series, case.get("window"))
    some = [0, 1, 6, 7, 12, 20, 31, 36]
    claimed = [told[at].stddev[0] ** 2 for at in some]
    assert claimed == pytest.approx([method.variance(at + 1) for at in some])
    assert agrees(errors[some].T, claimed)


@pytest.mark.parametrize("factor", [DyadicTree, SquareRoot])
def test_steps_have_the_error_of_the_same_series_at_once(factor: type[Any]) -> None:
    """`blocks_between` is what releases state; `variance` what streams do."""
    one = factor(37)
    stop = np.arange(1, 38)
    at_once = one.blocks_between(np.zeros_like(stop), stop)
    np.testing.assert_allclose([one.variance(int(step)) for step in stop], at_once)


def test_figures_beyond_64_bits_do_not_wrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Gaussian, "steps", lambda _self, values, _entropy: np.asarray(values))
    huge = np.full((4, 1), (1 << 62) + 1)
    for method in ("tree", "honaker", "root"):
        told = stepped(made({"method": method, "periods": 4}, cells=1), huge)
        assert float(told[-1].values[0]) == pytest.approx(4 * ((1 << 62) + 1), rel=1e-9)


def test_a_tree_tells_whole_numbers_and_least_squares_do_not() -> None:
    series = np.ones((5, 2), dtype=np.int64)
    kinds = {
        method: stepped(made({"method": method, "periods": 5}), series)[-1].values.dtype.kind
        for method in ("tree", "honaker", "root")
    }
    assert kinds == {"tree": "i", "honaker": "f", "root": "f"}


def _visits(kind: sf.Kind, max_rows: int = 1) -> Any:
    column = sf.Column("patient", kind, sf.Role.IDENTIFIER, nullable=False)
    schema = sf.Schema("visits", (column,), unit=sf.Entity("patient", max_rows=max_rows))
    table = pa.table({"patient": pa.array([], pa.int64() if kind == "integer" else pa.string())})
    return sf.protect(table, schema, epsilon=1_000, max_epsilon=1_000)


def test_a_word_among_numbers_makes_nobody_count_twice(tmp_path: Path) -> None:
    people = "patient\n" + "".join(f"{one}\n" for one in range(1000))
    for name, more in (("monday", ""), ("tuesday", "x1\n")):
        (tmp_path / f"{name}.csv").write_text(people + more)
    stream = _visits(sf.Kind.INTEGER).stream("tree", periods=2, epsilon=1_000)
    told = [stream.step(tmp_path / f"{one}.csv").values[0] for one in ("monday", "tuesday")]
    assert told == [1000, 1000]


def test_a_person_is_the_same_however_a_step_writes_them(tmp_path: Path) -> None:
    (tmp_path / "7.csv").write_text("patient\n7\n 7\n07\n")
    stream = _visits(sf.Kind.INTEGER).stream("tree", periods=6, epsilon=1_000)
    ways = (pa.array([7]), pa.array([7.0]), pa.array(["7", "07", " 7", "+7", "7.0"]))
    told = [stream.step(pa.table({"patient": one})).values for one in ways]
    told += [stream.step([{"patient": "7"}]).values, stream.step(tmp_path / "7.csv").values]
    assert told == [[1]] * 5


@pytest.mark.parametrize("rows", [0, 1, 500])
def test_rows_of_nobody_never_count(rows: int) -> None:
    stream = _visits(sf.Kind.INTEGER).stream("tree", periods=2, epsilon=1_000)
    came = pa.table({"patient": pa.array([5.0] + [math.nan] * rows)})
    assert stream.step(came).values == [1]
    assert stream.step(pa.table({"patient": pa.array([5, None])})).values == [1]


def test_texts_that_come_as_numbers_are_refused() -> None:
    stream = _visits(sf.Kind.TEXT).stream("tree", periods=2, epsilon=1_000)
    with pytest.raises(SourceError, match="cannot be read as text"):
        stream.step(pa.table({"patient": pa.array([5.0])}))


def test_of_each_person_the_first_rows_count_over_all_steps() -> None:
    stream = _visits(sf.Kind.INTEGER, max_rows=2).stream("tree", periods=3, epsilon=1_000)
    told = [stream.step(pa.table({"patient": pa.array(one)})).values[0]
            for one in ([1, 2, 1, 1], [1, 2, 2, 3], [2, 3, 3])]  # fmt: skip
    assert told == [3, 5, 6]
