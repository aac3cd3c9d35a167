"""Error bars hold: in groups of every size, down to none, the truth is outside in 5 % at most.

Every group of a question has noise of its own, so thousands of alike groups are thousands of
answers. The entropy is seeded.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.method import AnswerLimit
from sfumato.methods.query.answer import question
from sfumato.privacy.ledger.receipt import Receipt, Stage
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

LOW, HIGH, COPIES = 0, 100, 1000
SIZES = (0, 1, 2, 3, 5, 10, 100)
SHAPES: tuple[Callable[[int], NDArray[np.int64]], ...] = (
    lambda size: np.full(size, LOW),
    lambda size: np.where(np.arange(size) % 2, LOW, HIGH),
    lambda size: np.full(size, 50),
    lambda size: np.linspace(10, 90, size).astype(np.int64),
)
# The bars of ratios have room to spare; those of counts and sums are as narrow as can be, and four
# standard deviations of a share of 5 % among 1,000 are 2.8 %.
ALLOWED = {"n": 0.078, "s": 0.078, "a": 0.05, "v": 0.05, "d": 0.05}
UNITS: dict[str, sf.Rows | sf.Entity] = {"rows": sf.Rows(), "people": sf.Entity("p", 3)}
COLUMNS = (
    sf.Column("p", sf.Kind.INTEGER, nullable=False),
    sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(LOW, HIGH), nullable=False),
)


def seed_draws(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    def entropy(receipt: Receipt) -> SeededEntropy:
        receipt.advance(Stage.DRAWN, {Stage.RESERVED})
        return SeededEntropy(seed)

    monkeypatch.setattr(Receipt, "entropy", entropy)


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_draws(monkeypatch, 5)


def protected(
    groups: list[NDArray[np.int64]], key: sf.Column, names: pa.Array, unit: sf.Rows | sf.Entity
) -> sf.Private:
    """Groups of values, `COPIES` times each, under keys; every row is another person's."""
    codes = np.repeat(np.arange(len(groups) * COPIES), np.repeat([*map(len, groups)], COPIES))
    values = np.concatenate([np.tile(group, COPIES) for group in groups])
    table = pa.table(
        {"p": pa.array(np.arange(len(values))), "x": values, "k": names.take(pa.array(codes))}
    )
    held = sf.read(table, sf.Schema("t", (*COLUMNS, key)))
    return sf.protect(held, unit=unit, epsilon=5, delta="0.5")


def truths(values: NDArray[np.int64]) -> dict[str, float]:
    """What there is to be told of a group, but for the noise."""
    found = {"n": float(len(values)), "s": float(values.sum())}
    if len(values):
        found |= {"a": float(values.mean())}
    if len(values) > 1:
        found |= {"v": float(values.var(ddof=1)), "d": float(values.std(ddof=1))}
    return found


def misses(answer: sf.Answer, column: str, truth: Any) -> NDArray[np.bool_]:
    assert answer.error is not None
    found = np.array(answer.table[column].to_pylist(), dtype=np.float64)
    bound = np.broadcast_to(np.array(answer.error[column]["bound95"]), found.shape)
    assert np.isfinite(bound).all()
    return np.asarray(np.abs(found - truth) > bound * (1 + 1e-9) + 1e-9)


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize(
    ("epsilon", "delta"), [("0.1", "0"), ("1", "0"), ("5", "0"), ("1", "1e-5")]
)
def test_E_bars_of_declared_groups_hold_at_every_size(unit: str, epsilon: str, delta: str) -> None:
    groups = [shape(size) for size in SIZES for shape in SHAPES]
    count = len(groups) * COPIES
    key = sf.Column("k", sf.Kind.INTEGER, domain=sf.Bounds(0, count - 1), nullable=False)
    private = protected(groups, key, pa.array(range(count)), UNITS[unit])
    answer = private.query(
        "SELECT k, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, VARIANCE(x) AS v, STDDEV(x) AS d "
        "FROM t GROUP BY k ORDER BY k",
        epsilon=epsilon,
        delta=delta,
    )
    for place, group in enumerate(groups):
        for column, truth in truths(group).items():
            missed = misses(answer, column, truth)[place * COPIES : (place + 1) * COPIES].mean()
            assert missed <= ALLOWED[column], (len(group), place % len(SHAPES), column)


@pytest.mark.parametrize("unit", UNITS)
def test_E_bars_of_groups_that_passed_a_threshold_hold(unit: str) -> None:
    """Small groups are shown only by high noise; their bars allow for that."""
    groups = [np.arange(size) for size in (1, 2, 4, 8, 15, 40)]
    count = len(groups) * COPIES
    key = sf.Column("k", sf.Kind.TEXT, nullable=False)
    each = sf.Rows() if unit == "rows" else sf.Entity("p", 1)
    private = protected(groups, key, pa.array([f"k{one}" for one in range(count)]), each)
    people = "*" if unit == "rows" else "DISTINCT p"
    answer = private.query(
        f"SELECT k, COUNT({people}) AS n, AVG(x) AS a, STDDEV(x) AS d FROM t GROUP BY k",
        epsilon=5,
        delta="0.2",
    )
    owners = np.array([int(one[1:]) // COPIES for one in answer.table["k"].to_pylist()])
    for place, group in enumerate(groups):
        mine = owners == place
        assert mine.sum() > 10
        room = 4 * np.sqrt(0.05 * 0.95 / mine.sum())
        for column, truth in truths(group).items():
            if column in answer.table.column_names:
                assert misses(answer, column, truth)[mine].mean() <= 0.05 + room, len(group)


def test_E_bars_hold_among_observed_groups_that_a_limit_has_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a thousand groups alike the five of the largest noisy counts are shown, ten times."""
    limit = AnswerLimit(groups=5, bytes=1 << 30)
    monkeypatch.setattr("sfumato.vault.limits.VaultLimits.of_answer", lambda *_: limit)
    key = sf.Column("k", sf.Kind.TEXT, nullable=False)
    names = pa.array([f"k{one}" for one in range(COPIES)])
    missed: list[bool] = []
    for seed in range(10):
        seed_draws(monkeypatch, seed)
        private = protected([np.full(200, 50)], key, names, sf.Rows())
        answer = private.query(
            "SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon="0.5", delta="0.2"
        )
        assert answer.table.num_rows == 5
        missed += misses(answer, "n", 200.0).tolist()
    assert np.mean(missed) <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / len(missed))


def test_E_bars_of_the_largest_of_many_groups_hold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of alike groups those of the largest noisy counts are those of the highest noise."""
    monkeypatch.setattr(question, "observed_cap", lambda *_: COPIES // 20)
    key = sf.Column("k", sf.Kind.TEXT, nullable=False)
    names = pa.array([f"k{one}" for one in range(COPIES)])
    private = protected([np.arange(40)], key, names, sf.Rows())
    missed = []
    for seed in range(5):
        seed_draws(monkeypatch, seed)
        delta = f"0.00{seed + 1}"
        answer = private.query("SELECT k, COUNT(*) AS n FROM t GROUP BY k", epsilon=1, delta=delta)
        assert answer.table.num_rows == COPIES // 20
        missed.append(misses(answer, "n", 40).mean())
    assert np.mean(missed) <= ALLOWED["n"]


@pytest.mark.parametrize("epsilon", ["0.1", "1"])
def test_E_bars_of_levels_made_consistent_hold(epsilon: str) -> None:
    """Parts and totals adjusted to each other, by Laplace noise."""
    sides = (sf.Column("a", sf.Kind.INTEGER, domain=sf.Bounds(0, 999), nullable=False),
             sf.Column("b", sf.Kind.INTEGER, domain=sf.Bounds(0, 2), nullable=False))  # fmt: skip
    table = pa.table({"a": np.repeat(np.arange(1000), 3), "b": np.tile([0, 1, 1], 1000)})
    private = sf.protect(sf.read(table, sf.Schema("t", sides)), unit=sf.Rows(), epsilon=5)
    answer = private.query(
        "SELECT a, b, COUNT(*) AS n FROM t GROUP BY ROLLUP(a, b)", epsilon=epsilon
    )
    rows = answer.table.to_pylist()
    by_b = {0: 1, 1: 2, 2: 0, None: 3}
    truth = np.array([3000 if row["a"] is None else by_b[row["b"]] for row in rows])
    missed = misses(answer, "n", truth)
    for b in by_b:
        assert missed[[row["b"] == b for row in rows]].mean() <= 0.078, b


RATIOS = {
    "share": "COUNT(*) / SUM(COUNT(*)) OVER ()",
    "percent": "100.0 * COUNT(*) / SUM(COUNT(*)) OVER ()",
    "part": "SUM(x) / SUM(SUM(x)) OVER ()",
    "mean": "SUM(x) / COUNT(*)",
    "high": "COUNT(*) FILTER (WHERE x > 50) / COUNT(*)",
    "few": "COUNT(*) FILTER (WHERE x > 50) / SUM(COUNT(*)) OVER ()",
    "per": "COUNT(*) / SUM(x + 1)",
    "more": "COUNT(*) - COUNT(*) FILTER (WHERE x > 50)",
}


def ratios(values: NDArray[np.int64], rows: int, total: int) -> dict[str, float]:
    """The same of a group of a table with so many rows and such a sum."""
    high = float((values > 50).sum())
    found = {"share": len(values) / rows, "percent": 100 * len(values) / rows}
    found |= {"part": values.sum() / total, "few": high / rows, "more": len(values) - high}
    if len(values):
        found |= {"mean": float(values.mean()), "high": high / len(values)}
        found |= {"per": len(values) / float((values + 1).sum())}
    return found


def _by_turns() -> Iterator[Any]:
    """Every ratio at every price, of one unit or the other; all of them in `slow`."""
    for turn, (name, (epsilon, delta), unit) in enumerate(
        product(RATIOS, [("0.1", "0"), ("1", "0"), ("1", "1e-5")], UNITS)
    ):
        fast = (turn // 2 + turn) % 2 == 0
        yield pytest.param(unit, epsilon, delta, name, marks=[] if fast else [pytest.mark.slow])


@pytest.mark.parametrize(("unit", "epsilon", "delta", "name"), [*_by_turns()])
def test_E_bars_of_shares_and_ratios_hold_at_every_size(
    unit: str, epsilon: str, delta: str, name: str
) -> None:
    copies = {10_000: 5}
    groups = [
        shape(size)
        for size in (*SIZES, 10_000)
        for _ in range(copies.get(size, 100))
        for shape in SHAPES[1:]
    ]
    key = sf.Column("k", sf.Kind.INTEGER, domain=sf.Bounds(0, len(groups) - 1), nullable=False)
    codes, values = np.repeat(np.arange(len(groups)), [*map(len, groups)]), np.concatenate(groups)
    table = pa.table({"p": np.arange(len(codes)), "x": values, "k": codes})
    held = sf.read(table, sf.Schema("t", (*COLUMNS, key)))
    answer = sf.protect(held, unit=UNITS[unit], epsilon=5, delta="0.5").query(
        f"SELECT k, {RATIOS[name]} AS r FROM t GROUP BY k ORDER BY k", epsilon=epsilon, delta=delta
    )
    truth = [ratios(one, len(values), int(values.sum())).get(name) for one in groups]
    told, missed = outside(answer, "r", truth)
    sizes = np.array([*map(len, groups)])
    assert told[sizes == 10_000].all()
    for size in (*SIZES, 10_000):
        # A bar that is not told, as a divisor may be zero, holds everything.
        assert missed[sizes == size].mean() <= 0.05, size


def outside(
    answer: sf.Answer, column: str, truth: list[float | None]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows have a truth, a figure and a bar, and which of them miss the truth."""
    assert answer.error is not None
    bound = answer.error[column]["bound95"]
    bounds = bound if isinstance(bound, list) else [bound] * len(truth)
    rows = np.array([answer.table[column].to_pylist(), bounds, truth], dtype=np.float64)
    found, far, true = rows
    told = np.asarray(~np.isnan(rows).any(axis=0))
    return told, told & np.asarray(np.abs(found - true) > far * (1 + 1e-9))


@pytest.mark.parametrize("having", ["", "HAVING COUNT(*) > 12"])
@pytest.mark.parametrize("key", [None, 299])
def test_E_bars_of_shares_hold_where_noise_has_chosen_the_groups(
    having: str, key: int | None
) -> None:
    """By a threshold or by HAVING: the total is that of the groups which are shown."""
    sizes = np.repeat([1, 8, 15, 40], 75)
    names = pa.array(np.repeat(np.arange(len(sizes)), sizes))
    domain = None if key is None else sf.Bounds(0, key)
    columns = (sf.Column("k", sf.Kind.INTEGER, domain=domain, nullable=False),)
    held = sf.read(pa.table({"k": names}), sf.Schema("t", columns))
    missed = []
    for epsilon in ("0.5", "0.7", "1", "1.5", "2"):
        answer = sf.protect(held, unit=sf.Rows(), epsilon=5, delta="0.5").query(
            f"SELECT k, COUNT(*) / SUM(COUNT(*)) OVER () AS r FROM t GROUP BY k {having}",
            epsilon=epsilon,
            delta="0.05",
        )
        shown = sizes[answer.table["k"].to_pylist()]
        told, wrong = outside(answer, "r", list(shown / shown.sum()))
        assert told.all()
        missed.append(wrong.mean())
    assert max(missed) <= 0.05


SHARE = "COUNT(*) / SUM(COUNT(*)) OVER ()"
CHOICES = {
    "having": "HAVING n > 36",
    "top": "ORDER BY n DESC LIMIT 3",
    "having a share": f"HAVING {SHARE} > 0.018",
    "top of shares": f"ORDER BY {SHARE} DESC LIMIT 3",
    "having a mean": "HAVING AVG(x) > 90",
    "top of sums": "ORDER BY s DESC LIMIT 3",
}


@pytest.mark.parametrize(
    ("epsilon", "delta", "choice"),
    [
        *(("0.2", "0", choice) for choice in CHOICES),
        ("0.08", "0.05", "having"),
        *(
            pytest.param("0.08", "0.05", choice, marks=pytest.mark.slow)
            for choice in CHOICES
            if choice != "having"
        ),
    ],
)
def test_E_bars_hold_among_rows_that_were_chosen_by_their_noise(
    choice: str, epsilon: str, delta: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a hundred groups alike, by Laplace and by Gaussian noise."""
    key = sf.Column("k", sf.Kind.INTEGER, domain=sf.Bounds(0, 99), nullable=False)
    keys, values = np.repeat(np.arange(100), 20), np.tile([10, 90], 1000)
    table = pa.table({"p": np.arange(2000), "x": values, "k": keys})
    held = sf.read(table, sf.Schema("t", (*COLUMNS, key)))
    missed: dict[str, list[bool]] = {column: [] for column in "nsar"}
    for seed in range(25):
        seed_draws(monkeypatch, seed)
        answer = sf.protect(held, unit=sf.Rows(), epsilon=5, delta="0.5").query(
            f"SELECT k, COUNT(*) AS n, SUM(x) AS s, AVG(x) AS a, {SHARE} AS r FROM t "
            f"GROUP BY k {CHOICES[choice]}",
            epsilon=epsilon,
            delta=delta,
        )
        rows = answer.table.num_rows
        shown = 100 if "ORDER" in CHOICES[choice] or "OVER" in CHOICES[choice] else max(rows, 1)
        for column, truth in {"n": 20.0, "s": 1000.0, "a": 50.0, "r": 1 / shown}.items():
            if rows:
                missed[column] += outside(answer, column, [truth] * rows)[1].tolist()
    for column, wrong in missed.items():
        assert len(wrong) >= 40
        room = 4 * np.sqrt(0.05 * 0.95 / len(wrong))
        assert np.mean(wrong) <= 0.05 + room, column


def test_a_choice_by_keys_alone_leaves_bars_as_they_are() -> None:
    key = sf.Column("k", sf.Kind.INTEGER, domain=sf.Bounds(0, 99), nullable=False)
    held = sf.read(pa.table({"k": np.arange(100)}), sf.Schema("t", (key,)))
    bounds = []
    for clause in ("", "HAVING k > 45", "ORDER BY k DESC LIMIT 3", "ORDER BY n", "HAVING n > 0"):
        private = sf.protect(held, unit=sf.Rows(), epsilon=1)
        sql = f"SELECT k, COUNT(*) AS n FROM t GROUP BY k {clause}"
        answer = private.query(sql, epsilon=1)
        assert answer.error is not None
        bounds.append(answer.error["n"]["bound95"])
        assert private.explain(sql, epsilon=1).expected[0].bound95 == bounds[-1]
        told = any("chosen by their noisy figures" in one for one in answer.to_json()["notes"])
        assert told == (clause == "HAVING n > 0")
    assert len(set(bounds[:-1])) == 1
    assert bounds[-1] > bounds[0]


def test_E_a_constant_has_a_bar_too() -> None:
    column = sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(7, 7), nullable=False)
    table = sf.read(pa.table({"x": [7, 7]}), sf.Schema("t", (column,)))
    private = sf.protect(table, unit=sf.Rows(), epsilon=1)
    answer = private.query("SELECT STDDEV(x) AS d, VARIANCE(x) AS v, AVG(x) AS a FROM t", epsilon=1)
    assert answer.error is not None
    assert answer.table.to_pylist() == [{"d": 0.0, "v": 0.0, "a": 7.0}]
    assert all(answer.error[name] == {"sd": 0.0, "bound95": 0.0} for name in "dva")
