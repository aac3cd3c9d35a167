"""Shares with their intervals on one scale."""

from __future__ import annotations

import pytest
from tests.unit.report.svg_reading import assert_readable, marks, words

from sfumato.errors import ParameterError
from sfumato.report.blocks import PageTable
from sfumato.report.share_chart import SharePoint, ShareRow, shares

ROWS = [
    ShareRow(
        "A very long name of something that is told " * 3,
        "50 % (guess 25 %)",
        [SharePoint("Attacker", 0.5, 0.4, 0.6), SharePoint("A guess", 0.25, 0.0, 0.5)],
        limit=0.75,
    ),
    ShareRow("Another", "100 %", [SharePoint("Attacker", 1.0, 0.9, 1.0)], limit=1.5),
]
TABLE = PageTable("Shares", ("What",), [("A",)])
PICTURE = shares(ROWS, label="Shares", table=TABLE, value="Right", limit="Most that is allowed")


@pytest.mark.parametrize("width", [260, 354, 764])
def test_nothing_is_cut(width: int) -> None:
    assert_readable(PICTURE.draw(width))


def test_points_lie_where_their_shares_are() -> None:
    svg = PICTURE.draw(112)  # 100 pixels of scale after an edge of 6
    whiskers = [one.attrib["d"] for one in marks(svg, "whisker")]
    assert [one.partition("h")[2].split("M")[0] for one in whiskers] == ["20", "50", "10"]
    circles = [one.attrib["d"] for one in marks(svg, "tone3")]
    assert [one.split()[0] for one in circles[1:]] == ["M51.5", "M101.5"]  # the legend's is first
    lines = [float(one.attrib["x"]) for one in marks(svg, "limit")]
    assert lines[1:] == [80, 105]  # what lies beyond all is drawn at the end


def test_series_have_shapes_of_their_own() -> None:
    drawn = {kind: marks(PICTURE.draw(354), kind)[0].attrib["d"] for kind in ("tone3", "tone7")}
    assert "a4.5" in drawn["tone3"]
    assert "h8v8" in drawn["tone7"]


def test_the_legend_tells_of_a_limit_only_where_there_is_one() -> None:
    without = shares(
        [ROWS[1]._replace(limit=None)], label="", table=TABLE, value="Right", limit="Most"
    )
    assert "Most" not in [one.text for one in words(without.draw(354))]
    assert "Most that is allowed" in [one.text for one in words(PICTURE.draw(354))]


def test_what_is_no_number_is_refused() -> None:
    row = ShareRow("A", "", [SharePoint("Attacker", float("nan"), 0.0, 1.0)])
    with pytest.raises(ParameterError, match="cannot show nan"):
        shares([row], label="", table=TABLE, value="")
