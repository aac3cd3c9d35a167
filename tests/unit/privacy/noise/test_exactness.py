"""The float path and the exact path give the same draws from the same digits."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from sfumato.errors import ParameterError
from sfumato.privacy import noise
from sfumato.privacy.noise import exponential, selection
from sfumato.privacy.noise.discrete import discrete_gaussian, discrete_laplace, geometric
from sfumato.privacy.noise.exponential import (
    Exponentials,
    Revealed,
    bernoulli_exp,
    floors,
    unshifted,
)
from sfumato.privacy.noise.selection import choose, choose_within
from sfumato.testing.entropy import SeededEntropy

SCALES = [Fraction(1, 50), Fraction(1), Fraction(7, 3), Fraction(1000), Fraction(1 << 24)]


@pytest.mark.parametrize("scale", SCALES, ids=str)
def test_floors_are_the_same_either_way(scale: Fraction, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = floors(scale, Exponentials(1500, SeededEntropy(1)))
    monkeypatch.setattr(exponential, "ERROR", 1e9)
    exact = floors(scale, Exponentials(1500, SeededEntropy(1)))
    assert fast.tolist() == exact.tolist()


def test_coins_are_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    gaps = np.arange(1500) % 7
    fast = bernoulli_exp(gaps, rate=Fraction(1, 3), entropy=SeededEntropy(2))
    monkeypatch.setattr(exponential, "EXP_ERROR", np.inf)
    exact = bernoulli_exp(gaps, rate=Fraction(1, 3), entropy=SeededEntropy(2))
    assert fast.tolist() == exact.tolist()
    assert fast[gaps == 0].all()


def test_choices_are_the_same_either_way(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = np.tile([0, 3, -2, 3], (400, 1))
    weights = [Fraction(1), Fraction(1, 2), Fraction(9), Fraction(1)]
    options = {"rate": Fraction(1, 2), "weights": weights}
    fast = choose(scores, entropy=SeededEntropy(3), **options)  # type: ignore[arg-type]
    monkeypatch.setattr(selection, "MARGIN", 1e9)
    exact = choose(scores, entropy=SeededEntropy(3), **options)  # type: ignore[arg-type]
    assert fast.tolist() == exact.tolist()


class Digits:
    """Entropy with given words first, then seeded ones."""

    def __init__(self, *words: int) -> None:
        self._given = list(words)
        self._rest = SeededEntropy(4)

    def words(self, count: int) -> np.ndarray:
        taken, self._given = self._given[:count], self._given[count:]
        rest = self._rest.words(count - len(taken))
        return np.concatenate([np.array(taken, dtype=np.uint64), rest])


def test_the_largest_and_smallest_digits_are_decided_exactly() -> None:
    """U next to 1, U below 2^-53, and all 63 digits zero: where floats know least."""
    ones, tiny, zero = (1 << 64) - 1, 2, 0
    drawn = Exponentials(3, Digits(ones, tiny, zero, 0, 0))
    assert drawn.unknown.tolist() == [2]
    found = floors(Fraction(10), drawn)
    assert found[0] == 0
    assert found[1] == int(10 * 63 * np.log(2))
    assert found[2] >= int(10 * 127 * np.log(2))


def test_a_draw_on_the_edge_keeps_its_digits_and_gets_more() -> None:
    """U = exp(-1) to 63 digits: the next digits decide whether floor(E) is 0 or 1."""
    prefix = int(Fraction(np.exp(-1.0)) * 2**63)
    exact = int(Fraction(3678794411714423215955237701614608674458111310318, 10**49) * 2**63)
    assert abs(prefix - exact) < 2**11
    low_end = Revealed(exact, 63, Digits(0)).floor(Fraction(1), unshifted)
    high_end = Revealed(exact, 63, Digits((1 << 64) - 1)).floor(Fraction(1), unshifted)
    assert (low_end, high_end) == (1, 0)


def test_wide_results_are_python_integers_and_the_law_of_their_low_part_is_kept() -> None:
    drawn = discrete_laplace(Fraction(1 << 60), 4000, SeededEntropy(5))
    assert drawn.dtype == object
    assert max(abs(value) for value in drawn) > 1 << 63
    odd = sum(int(value) & 1 for value in drawn)
    assert abs(odd - 2000) < 5 * np.sqrt(1000)  # false alarm below 1e-6
    wider = geometric(Fraction(1 << 100), 2000, SeededEntropy(6))
    mean = sum(int(value) for value in wider) / 2000 / 2**100
    assert abs(mean - 1) < 5 / np.sqrt(2000)


def test_a_scale_just_above_the_direct_limit_continues_the_one_below() -> None:
    """The same law by both ways: means and deviations within five standard errors."""
    for scale in (Fraction(1 << 24), Fraction((1 << 24) + 1)):
        drawn = discrete_laplace(scale, 20_000, SeededEntropy(7)).astype(np.float64) / float(scale)
        assert abs(drawn.mean()) < 5 * np.sqrt(2 / 20_000)
        assert abs(np.abs(drawn).mean() - 1) < 5 / np.sqrt(20_000)


def test_small_variance_gives_mostly_zeros_with_the_right_share_of_ones() -> None:
    drawn = discrete_gaussian(Fraction(1, 10), 50_000, SeededEntropy(8))
    one = 2 * np.exp(-5.0) / (1 + 2 * np.exp(-5.0) + 2 * np.exp(-20.0))
    share = (np.abs(drawn) == 1).mean()
    assert abs(share - one) < 5 * np.sqrt(one / 50_000)


def test_tiny_and_huge_scales_are_drawn_or_refused_by_code() -> None:
    assert not discrete_laplace(Fraction(1, 10**900), 3, SeededEntropy(9)).any()
    assert len(discrete_laplace(Fraction(10**900), 3, SeededEntropy(9))) == 3
    assert not discrete_gaussian(Fraction(1, 1 << 1000), 3, SeededEntropy(9)).any()
    assert len(discrete_gaussian(Fraction(1 << 1000), 3, SeededEntropy(9))) == 3
    for stddev in ("1e-200", "1e200"):
        with pytest.raises(ParameterError, match="between 2") as caught:
            noise.discrete_gaussian(stddev, 1)
        assert caught.value.code == "parameter_out_of_range"


@pytest.mark.parametrize("size", [-1, 1.5, True, None, "3"])
def test_a_size_that_is_no_count_is_refused(size: object) -> None:
    for draw in (noise.discrete_laplace, noise.discrete_gaussian):
        with pytest.raises(ParameterError, match="whole number of draws") as caught:
            draw(1, size)  # type: ignore[arg-type]
        assert caught.value.code == "parameter_out_of_range"


def test_no_draws_are_an_empty_array() -> None:
    assert noise.discrete_laplace(3, 0).tolist() == noise.discrete_gaussian(3, 0).tolist() == []


def test_whole_weights_of_any_type_are_compared_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection, "MARGIN", 1e9)
    scores, starts = np.zeros(40, dtype=np.int64), np.arange(0, 40, 4)
    lengths = np.tile([1, 5, 1, 1], 10)
    options = {"rate": Fraction(1), "entropy": SeededEntropy(9)}
    chosen = choose_within(scores, starts, weights=lengths, **options)  # type: ignore[arg-type]
    again = choose_within(
        scores, starts, weights=lengths.astype(object), rate=Fraction(1), entropy=SeededEntropy(9)
    )
    assert chosen.tolist() == again.tolist()
