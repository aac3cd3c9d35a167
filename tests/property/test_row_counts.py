"""Numbers of rows no one can have are counted exactly too: no score, sum or weight wraps.

Row counts are private, so nothing may go wrong from some number of them on. Such tables cannot be
made; their counts are put in where the engine would give them.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.fixtures.counts import frequencies, request_for, whole_numbers

from sfumato.methods.publish.catalogue import KINDS_OF_ROWS
from sfumato.methods.publish.publication import prepare
from sfumato.privacy.mechanisms.base import widened
from sfumato.privacy.mechanisms.quantile import Counted, Quantile
from sfumato.testing.entropy import SeededEntropy

LARGEST = 2**62
RANKS = [Fraction(0), Fraction(1, 2), Fraction(1, 10**6), Fraction(999_999, 10**6), Fraction(1)]


def counted(counts: list[int]) -> Counted:
    places = np.arange(len(counts))
    return Counted(
        places * 7, np.array(counts, dtype=np.int64), np.zeros(len(counts), dtype=np.int64), 1
    )


@given(
    counts=st.lists(st.integers(0, 2**10), min_size=1, max_size=6),
    weight=st.sampled_from([1, 2, 2**17, 2**30, 2**50]),
    rank=st.sampled_from(RANKS),
    seed=st.integers(0, 2**32),
)
def test_F21_a_quantile_is_the_same_however_finely_rows_are_counted(
    counts: list[int], weight: int, rank: Fraction, seed: int
) -> None:
    """Counting each row K times, with scores K times as sensitive, is the same draw by draw."""
    plain = Quantile(epsilon=Fraction(1), rank=rank, size=50)
    fine = Quantile(epsilon=Fraction(1), rank=rank, size=50, granule=weight)
    expected = plain.sample(counted(counts), SeededEntropy(seed))
    found = fine.sample(counted([weight * one for one in counts]), SeededEntropy(seed))
    assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("rows", [10**8, 2**45, 2**62])
def test_F21_the_highest_rank_of_many_rows_is_found(rows: int) -> None:
    """One more person moves nobody's million rows: scores beyond 64 bits once did."""
    mechanism = Quantile(epsilon=Fraction(1), rank=Fraction(999_999, 10**6), size=100, granule=1)
    for more in (0, 1):
        groups = np.repeat(np.arange(20), 2)
        points = np.tile([10, 90], 20)
        counts = np.tile(np.array([rows // 2 - 1 + more, rows // 2], dtype=np.int64), 20)
        chosen = mechanism.sample(Counted(points, counts, groups, 20), SeededEntropy(1))
        assert (chosen == 90).all()


@given(st.lists(st.integers(-LARGEST, LARGEST), max_size=5), st.integers(1, LARGEST))
def test_F21_widened_sums_never_wrap(values: list[int], weight: int) -> None:
    found = widened(np.array(values, dtype=np.int64), weight) * weight
    assert int(found.sum()) == weight * sum(values)


def shape_of(kind: str) -> tuple[int, ...]:
    return (8, 8) if kind in ("quadtree", "adaptive-grid", "hybrid") else (16,)


OPTIONS: dict[str, dict[str, object]] = {"continual": {"method": "root"}}


@pytest.mark.parametrize("nullable", [False, True])
@pytest.mark.parametrize("rows", [2**50, 2**61])
@pytest.mark.parametrize(
    "kind", [one for one in KINDS_OF_ROWS if one not in ("quantiles", "above")]
)
def test_F21_publications_of_many_rows(kind: str, rows: int, *, nullable: bool) -> None:
    """However many rows a cell has, the release says about as many, or a public number of them."""
    axes = whole_numbers(*shape_of(kind), nullable=nullable)
    table = np.zeros([axis.size for axis in axes], dtype=np.int64)
    table.flat[3] = rows
    request = request_for(axes, epsilon=1)
    made = prepare(kind, request, OPTIONS.get(kind, {}))
    tables = made.method.release(frequencies(axes, table), SeededEntropy(1))
    figures = np.concatenate(
        [
            np.asarray(one.column(name).to_numpy(zero_copy_only=False), dtype=float)
            for one in tables.values()
            for name in one.column_names
            if name in ("count", "running", "rows")
        ]
    )
    most = 2**53 / table.size if kind == "mwem" else rows
    assert 0.5 * most <= figures.max() <= 1.5 * rows
    assert figures.min() >= -1.5 * rows if kind == "sketch" else figures.min() > -0.5 * rows


@pytest.mark.parametrize("rows", [2**50, 2**61])
def test_F21_quantiles_of_many_rows(rows: int) -> None:
    axes = whole_numbers(100)
    table = np.zeros(100, dtype=np.int64)
    table[[10, 50, 90]] = rows // 2, rows, rows // 2
    made = prepare("quantiles", request_for(axes), {"ranks": "0.1,0.5,0.999999"})
    released = made.method.release(frequencies(axes, table), SeededEntropy(1))["quantiles"]
    assert released.column("a").to_pylist() == [10, 50, 90]
