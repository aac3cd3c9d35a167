"""Lines and points with error bars."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

from sfumato.errors import ParameterError
from sfumato.report.bars import Bar
from sfumato.report.blocks import PageTable
from sfumato.report.points import Interval, IntervalRow, NamedPoint, draw_intervals, draw_tradeoff

if TYPE_CHECKING:
    from sfumato.report.picture import Picture


def tradeoff(*spots: NamedPoint) -> Picture:
    table = PageTable("points", ("Name",), [(one.name,) for one in spots])
    return draw_tradeoff(spots, label="points", titles=("across", "up"), table=table)


def spot(name: str, x: float, y: float, *, best: bool = True) -> NamedPoint:
    return NamedPoint(name, Interval(x, x - 0.02, x + 0.02), Interval(y, y - 0.02, y + 0.02), best)


def test_every_point_is_named_and_the_best_are_joined() -> None:
    picture = tradeoff(spot("a", 0.2, 0.9), spot("b", 0.8, 0.5), spot("c", 0.3, 0.3, best=False))
    for width in (354, 764):
        made = picture.draw(width)
        assert re.findall(r'class="name haloed"[^>]*>(\w)<', made) == ["a", "b", "c"]
        assert made.count("line stroke1") == 1
        assert made.count("mark tone1") == 2
        assert made.count("mark tone7") == 1


def test_names_of_points_in_one_place_stand_apart() -> None:
    made = tradeoff(*(spot(f"name{n}", 0.5, 0.5) for n in range(6))).draw(354)
    places = re.findall(r'class="name haloed" x="([\d.]+)" y="([\d.]+)"', made)
    assert len({*places}) == 6


def test_one_point_alone_is_drawn_without_a_line() -> None:
    made = tradeoff(spot("only", 1 - 0.02, 0.02)).draw(354)
    assert "only" in made
    assert "line stroke1" not in made


def test_a_long_name_is_cut_and_told_on_a_touch() -> None:
    name = "a very long name of a candidate that nobody could ever read in a picture"
    assert f"<title>{name}</title>" in tradeoff(spot(name, 0.5, 0.5)).draw(354)


ROWS = [
    IntervalRow(
        "A very long name of something that is told " * 3,
        "50 % (guess 25 %)",
        [Bar("Attacker", 0.5, 0.4, 0.6), Bar("A guess", 0.25, 0.0, 0.5)],
        limit=0.75,
    ),
    IntervalRow("Another", "100 %", [Bar("Attacker", 1.0, 0.9, 1.0)], limit=1.5),
]
INTERVAL_TABLE = PageTable("Shares", ("What",), [("A",)])
INTERVALS = draw_intervals(
    ROWS, label="Shares", table=INTERVAL_TABLE, value="Right", limit="Most that is allowed"
)


@pytest.mark.parametrize("width", [260, 354, 764])
def test_no_row_of_intervals_is_cut(width: int) -> None:
    assert_readable(INTERVALS.draw(width))


def test_points_lie_where_their_shares_are() -> None:
    svg = INTERVALS.draw(112)  # 100 pixels of scale after an edge of 6
    whiskers = [one.attrib["d"] for one in marks(svg, "whisker")]
    assert [one.partition("h")[2].split("M")[0] for one in whiskers] == ["20", "50", "10"]
    circles = [one.attrib["d"] for one in marks(svg, "tone3")]
    assert [one.split()[0] for one in circles[1:]] == ["M51.5", "M101.5"]  # the legend's is first
    lines = [float(one.attrib["x"]) for one in marks(svg, "limit")]
    assert lines[1:] == [80, 105]  # what lies beyond all is drawn at the end


def test_series_have_shapes_of_their_own() -> None:
    drawn = {kind: marks(INTERVALS.draw(354), kind)[0].attrib["d"] for kind in ("tone3", "tone7")}
    assert "a4.5" in drawn["tone3"]
    assert "h8v8" in drawn["tone7"]


def test_the_legend_tells_of_a_limit_only_where_there_is_one() -> None:
    without = draw_intervals(
        [ROWS[1]._replace(limit=None)], label="", table=INTERVAL_TABLE, value="Right", limit="Most"
    )
    assert "Most" not in [one.text for one in words(without.draw(354))]
    assert "Most that is allowed" in [one.text for one in words(INTERVALS.draw(354))]


def test_what_is_no_number_is_refused() -> None:
    row = IntervalRow("A", "", [Bar("Attacker", float("nan"), 0.0, 1.0)])
    with pytest.raises(ParameterError, match="cannot show nan"):
        draw_intervals([row], label="", table=INTERVAL_TABLE, value="")
