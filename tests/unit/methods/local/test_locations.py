"""Places on a public grid: the exact law of moves, its figures, and what is refused."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import ParameterError
from sfumato.methods.local import locations
from sfumato.methods.local.locations import PlanarLaplace, _quantile
from sfumato.privacy.accounting.elementary import log_up
from sfumato.privacy.noise.planar import PlanarVectors
from sfumato.testing.entropy import SeededEntropy


def made(epsilon: str = "1", step: str = "1", cells: tuple[int, int] = (9, 9)) -> PlanarLaplace:
    return PlanarLaplace((0, 0), step=step, cells=cells, epsilon=epsilon)


def test_the_published_distances() -> None:
    told = [1.67835, 4.74386, 6.63835]
    assert [_quantile(one) for one in (0.5, 0.95, 0.99)] == pytest.approx(told, abs=5e-6)
    fine = made("0.001", "1", (100, 100))
    assert [fine.radius(one) * 0.001 for one in (0.5, 0.95, 0.99)] == pytest.approx(told, rel=1e-3)


@pytest.mark.parametrize("step", ["0.1", "1", "15"])
def test_so_many_reports_are_within_the_stated_radius(step: str) -> None:
    """For every place in a cell; where cells are small beside the noise nearly by that number."""
    oracle = made("1", step, (300, 300))
    side, count = float(step), 60_000
    for corner in ((0.0, 0.0), (0.5, 0.5), (0.3, 0.999)):
        place = (np.array([150, 150]) + corner) * side
        rows = oracle.randomize(np.tile(place, (count, 1)), SeededEntropy(4)).rows
        middles = np.stack([rows["east"] + 0.5, rows["north"] + 0.5], axis=1) * side
        radii = np.hypot(*(middles - place).T)
        for share in (0.5, 0.95, 0.99):
            within = (radii <= oracle.radius(share)).mean()
            assert within > share - 5 * math.sqrt(share * (1 - share) / count)
            if step == "0.1":
                assert within < share + 0.03


def test_noise_has_the_published_moments() -> None:
    vectors = PlanarVectors(60_000, SeededEntropy(5)).values
    radii = np.hypot(*vectors.T)
    assert radii.mean() == pytest.approx(2, rel=0.02)
    assert vectors.var(axis=0) == pytest.approx([3, 3], rel=0.05)
    assert np.corrcoef(np.abs(vectors).T)[0, 1] > 0.1  # a length for both coordinates together
    # Planar, not two Laplaces side by side: no direction is longer than another.
    diagonal = np.abs(vectors @ [1, 1]) / math.sqrt(2)
    assert diagonal.mean() == pytest.approx(np.abs(vectors[:, 0]).mean(), rel=0.03)


@pytest.mark.parametrize("place", [(0.0, 0.0), (4.5, 4.999), (5.0, 5.0), (7.3, 1e-300)])
def test_exact_digits_decide_as_floats_do(
    place: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same digits lead to the same cell, whether one or all are decided by exact arithmetic."""
    oracle, places = made("0.7", "1/3", (40, 40)), np.tile(place, (200, 1))
    first = oracle.randomize(places, SeededEntropy(11)).rows
    monkeypatch.setattr(locations, "_ROUNDING", 1e9)
    assert (oracle.randomize(places, SeededEntropy(11)).rows == first).all()


def test_a_scale_is_the_length_of_a_unit_along_each_axis() -> None:
    plain = PlanarLaplace((8, 16), step=2, cells=(40, 50), epsilon="0.3")
    scaled = PlanarLaplace((2, 64), step=2, cells=(40, 50), epsilon="0.3", scale=(4, "1/4"))
    places = np.tile([33.7, 40.1], (500, 1))
    first = plain.randomize(places, SeededEntropy(3))
    second = scaled.randomize(places * [0.25, 4], SeededEntropy(3))
    assert (first.rows == second.rows).all()
    assert sf.local.from_json(scaled.to_json()) == scaled
    assert scaled != plain
    middles = scaled.reported(scaled.sketch(second)).to_pylist()
    assert all((row["east"] * 4 - 9) % 2 == 0 for row in middles)
    assert all((row["north"] / 4 - 17) % 2 == 0 for row in middles)


def test_what_is_enclosed_is_what_floats_say() -> None:
    vectors = PlanarVectors(300, SeededEntropy(12))
    for at in range(300):
        exact = vectors.exactly(at)
        for narrowed in range(2):
            for value, (low, high) in zip(vectors.values[at], exact.bounds(), strict=True):
                assert low <= high
                assert high - low < Fraction(1, 2**50)
                assert abs(Fraction(float(value)) - low) <= Fraction(float(vectors.errors[at]))
            before = exact.bounds()
            if narrowed == 0:
                exact.narrow()
        for (low, high), (low_before, high_before) in zip(exact.bounds(), before, strict=True):
            assert low_before <= low <= high <= high_before


@pytest.mark.parametrize("rest", [0, 1])
def test_a_border_within_the_first_digits_is_decided_by_further_ones(rest: int) -> None:
    """The digits of U after the first 63 say on which side of the border the noise ends."""

    class _Tied(SeededEntropy):
        """Exponentials of U = 1/2, due east; all further digits are zeros or ones."""

        further = 0

        def words(self, count: int) -> Any:
            found = super().words(count)
            self.drawn = getattr(self, "drawn", 0) + 1
            found[:] = {1: 1 << 63, 3: 1 << 63, 5: 0}.get(self.drawn, rest * (2**64 - 1))
            self.further += self.drawn > 5
            return found

    # E lies between 2 log 2 - 2^-61 and 2 log 2; the border is in the middle of that.
    noise = 2 * log_up(Fraction(2), 200) - Fraction(1, 2**62)
    oracle = PlanarLaplace((noise - 5, "-4.5"), step=1, cells=(9, 9), epsilon=1)
    entropy = _Tied(1)
    rows = oracle.randomize([[0.0, 0.0]], entropy).rows
    assert (int(rows["east"][0]), int(rows["north"][0])) == (4 if rest else 5, 4)
    assert entropy.further


def test_places_are_told_by_cells_and_kept_on_the_map() -> None:
    oracle = PlanarLaplace((1000, 2000), step=50, cells=(4, 3), epsilon="0.3")
    reports = oracle.randomize([[1010, 2010], [1199, 2149], [-1e9, 1e9]], SeededEntropy(2))
    assert [tuple(one) for one in reports.rows.tolist()] == [(0, 0), (3, 2), (0, 2)]
    found = oracle.reported(oracle.sketch(reports)).to_pylist()
    assert found[0] == {"east": 1025.0, "north": 2025.0, "reports": 1}
    assert oracle.sketch(reports) == oracle.sketch(reports.to_arrow())
    assert sf.local.from_json(oracle.to_json()) == oracle


@pytest.mark.parametrize(
    "options",
    [
        {"step": 0},
        {"cells": (0, 5)},
        {"cells": (1 << 13, 1 << 13)},
        {"cells": 5},
        {"origin": (1, 2, 3)},
        {"step": "0.0001"},
        {"step": 100},
        {"origin": ("1e400", 0)},
        {"scale": ("1e320", 1)},  # float64 holds such a side of a cell with three digits
        {"scale": ("1e330", 1)},
        {"scale": (1, "1e-320")},
    ],
)
def test_maps_that_cannot_be_are_refused(options: dict[str, object]) -> None:
    usual = {"origin": (0, 0), "step": 1, "cells": (5, 5), "epsilon": 1}
    with pytest.raises(ParameterError):
        PlanarLaplace(**(usual | options))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "values", [[1.0, math.nan], [[1, 2, 3]], ["here"], [[None, 1]], [[10**400, 1]]]
)
def test_what_is_no_place_is_refused(values: object) -> None:
    with pytest.raises(ParameterError):
        made().randomize(values)


def test_confidence_is_a_share() -> None:
    for wrong in (0, 1, 2):
        with pytest.raises(ParameterError):
            made().radius(wrong)
