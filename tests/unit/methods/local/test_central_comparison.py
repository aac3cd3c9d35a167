"""Laplace noise against randomized response, from runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.errors import OutputError, ParameterError
from sfumato.methods.local.central_comparison import LAPLACE, RESPONSE, Contrast, contrast
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(scope="module")
def found() -> Contrast:
    return contrast(["0.1", "0.3", "1"], [100, 1_000, 10_000], entropy=SeededEntropy(5))


def test_the_slopes_are_those_of_the_slide(found: Contrast) -> None:
    assert found.slope(LAPLACE, "people") == pytest.approx(0, abs=0.05)
    assert found.slope(RESPONSE, "people") == pytest.approx(0.5, abs=0.05)
    for method in (LAPLACE, RESPONSE):
        assert found.slope(method, "epsilon") == pytest.approx(-1, abs=0.06)


def test_runs_are_as_far_off_as_the_formula_says(found: Contrast) -> None:
    assert len(found.points) == 18
    for one in found.points:
        assert one.sd == pytest.approx(one.expected, rel=0.3)


def test_it_has_a_table_a_picture_and_a_page(found: Contrast, tmp_path: Path) -> None:
    assert found.table.column_names == ["method", "people", "epsilon", "sd", "expected"]
    (drawn,) = found.plot()
    assert "randomized response, epsilon 0.1" in drawn.svg
    found.save_report(tmp_path / "contrast.html")
    page = (tmp_path / "contrast.html").read_text()
    assert "Trusted or not" in page
    assert "<script" not in page
    with pytest.raises(OutputError):
        found.save_report(tmp_path / "contrast.html")
    assert "people^0." in repr(found)
    assert found._repr_html_()


@pytest.mark.parametrize("people", [[], [1], [10**8]])
def test_crowds_that_cannot_be_run_are_refused(people: list[int]) -> None:
    with pytest.raises(ParameterError):
        contrast(["1"], people)


def test_other_words_have_no_slope(found: Contrast) -> None:
    with pytest.raises(ParameterError):
        found.slope("gauss", "people")
    with pytest.raises(ParameterError):
        found.slope(LAPLACE, "delta")
