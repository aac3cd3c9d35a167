"""Named points with intervals: each has its name in the picture, and no two names meet."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from sfumato.report.blocks import PageTable
from sfumato.report.frontier import Interval, Spot, frontier

if TYPE_CHECKING:
    from sfumato.report.picture import Picture


def drawn(*spots: Spot) -> Picture:
    table = PageTable("points", ("Name",), [(one.name,) for one in spots])
    return frontier(spots, label="points", titles=("across", "up"), table=table)


def spot(name: str, x: float, y: float, *, best: bool = True) -> Spot:
    return Spot(name, Interval(x, x - 0.02, x + 0.02), Interval(y, y - 0.02, y + 0.02), best)


def test_every_point_is_named_and_the_best_are_joined() -> None:
    picture = drawn(spot("a", 0.2, 0.9), spot("b", 0.8, 0.5), spot("c", 0.3, 0.3, best=False))
    for width in (354, 764):
        made = picture.draw(width)
        assert re.findall(r'class="name haloed"[^>]*>(\w)<', made) == ["a", "b", "c"]
        assert made.count("line stroke1") == 1
        assert made.count("mark tone1") == 2
        assert made.count("mark tone7") == 1


def test_names_of_points_in_one_place_stand_apart() -> None:
    made = drawn(*(spot(f"name{n}", 0.5, 0.5) for n in range(6))).draw(354)
    places = re.findall(r'class="name haloed" x="([\d.]+)" y="([\d.]+)"', made)
    assert len({*places}) == 6


def test_one_point_alone_is_drawn_without_a_line() -> None:
    made = drawn(spot("only", 1 - 0.02, 0.02)).draw(354)
    assert "only" in made
    assert "line stroke1" not in made


def test_a_long_name_is_cut_and_told_on_a_touch() -> None:
    name = "a very long name of a candidate that nobody could ever read in a picture"
    assert f"<title>{name}</title>" in drawn(spot(name, 0.5, 0.5)).draw(354)
