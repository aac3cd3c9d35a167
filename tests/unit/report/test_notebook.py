"""What a notebook shows of answers and releases: cells with bars, pictures of their pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

import pytest

import sfumato as sf
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from pathlib import Path

EVIL = "<script>x</script>"
COLUMNS = (
    sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), sf.Widths((5, 50))),
    sf.Column(EVIL, sf.Kind.TEXT, sf.Role.SENSITIVE, sf.Values(("<b>", "&"))),
)
ROWS = [{"age": 20 + n % 40, EVIL: ("<b>", "&")[n % 2]} for n in range(400)]


@pytest.fixture(scope="module")
def private() -> sf.Private:
    return sf.protect(ROWS, sf.Schema("people", COLUMNS), epsilon=9)


@pytest.fixture(scope="module")
def answer(private: sf.Private) -> sf.Answer:
    asked = f'SELECT "{EVIL}", COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY "{EVIL}"'
    return private.query(asked, epsilon=3)


def test_an_answer_shows_bars_beside_figures_and_what_is_left(answer: sf.Answer) -> None:
    page: Any = answer._repr_html_()
    assert page.count("± 95\u00a0%") == 2
    assert "(missing)" in page
    assert "epsilon 6 of 9 left" in page
    assert "cost epsilon 3" in repr(answer)


def test_a_budget_is_told_in_one_line(private: sf.Private) -> None:
    assert "of 9 left" in repr(private)


def test_every_figure_has_its_picture(answer: sf.Answer, tmp_path: Path) -> None:
    pictures = answer.plot()
    assert [one.label.partition(" ")[0] for one in pictures] == ["n", "mean"]
    assert pictures._repr_html_().count("<img") == 2
    written = pictures.save(tmp_path / "p.svg")
    assert [one.name for one in written] == ["p.svg", "p-2.svg"]
    for one in written:
        tags = {element.tag.rpartition("}")[2] for element in ET.parse(one).iter()}
        assert "svg" in tags
        assert "script" not in tags


def test_a_publication_and_a_release_have_theirs(private: sf.Private) -> None:
    assert len(private.publish("histogram", columns="age", epsilon=1).plot()) == 1
    release = sf.read(ROWS, sf.Schema("people", COLUMNS)).anonymize(k=5)
    assert "lost" in release.plot()[0].label
    with pytest.raises(ParameterError) as refusal:
        release.public.plot()
    assert refusal.value.code == "comparison_impossible"
