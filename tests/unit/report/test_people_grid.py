"""A hundred people."""

from __future__ import annotations

import pytest
from tests.unit.report.svg_reading import assert_readable, marks

from sfumato.report.bars import draw_people

CROWD = draw_people(0.87, label="Crowd", inside="alone", outside="shares all with someone " * 5)


def test_crowd_counts_people() -> None:
    svg = CROWD.draw(354)
    shapes = {
        kind: [one.get("d", "") for one in marks(svg, kind) if one.get("d")]
        for kind in ("tone0", "faint")
    }
    # A head and shoulders each.
    assert [sum(one.count("M") for one in shape) / 2 for shape in shapes.values()] == [87, 13]


@pytest.mark.parametrize("width", [260, 354])
def test_nothing_is_cut(width: int) -> None:
    assert_readable(CROWD.draw(width))
