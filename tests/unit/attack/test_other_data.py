"""Ratings, paths, logs and graphs: each attack finds its planted people, and else nobody."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.attack.options import attack_options
from sfumato.attack.records import minutes
from sfumato.attack.runner import attack
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.schema import Items, Schema
from sfumato.data.schema.unit import Entity
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

DATA = Path(__file__).parents[4] / "shared" / "data"


def schema(**kinds: Kind) -> Schema:
    return Schema("data", tuple(Column(name, kind) for name, kind in kinds.items()))


RATINGS = schema(person=Kind.INTEGER, item=Kind.INTEGER, rating=Kind.INTEGER, time=Kind.DATE)


def ratings(draws: np.random.Generator, people: int = 200) -> pa.Table:
    """Twenty of a thousand items each."""
    items = np.stack([draws.permutation(1000)[:20] for _ in range(people)])
    days = np.datetime64("2013-01-01") + draws.integers(0, 300, items.size)
    return pa.table(
        {
            "person": np.repeat(np.arange(people), 20),
            "item": items.ravel(),
            "rating": draws.integers(1, 6, items.size),
            "time": days.astype("datetime64[D]"),
        }
    )


def test_a_few_ratings_find_a_person(found: Attacked, draws: np.random.Generator) -> None:
    told = found("scoreboard", ratings(draws), RATINGS, knows=4)
    assert told.success.value > 0.95
    assert told.baseline.value == pytest.approx(1 / 200)
    assert told.success.tried == 200


def test_the_form_of_a_table_says_which_column_is_what(
    found: Attacked, draws: np.random.Generator
) -> None:
    named = ratings(draws).rename_columns(["user", "film", "stars", "day"])
    columns = tuple(
        Column(name, one.kind, nullable=name != "user")
        for name, one in zip(named.column_names, RATINGS.columns, strict=True)
    )
    form = Items("user", "film", "stars", "day")
    declared = Schema("rated", columns, Entity("user", 20), form=form)
    told = found("scoreboard", named, declared, knows=4)
    assert told.success.value > 0.95


def test_ratings_dealt_out_anew_find_nobody(found: Attacked, draws: np.random.Generator) -> None:
    """People keep as many ratings, but those of anybody."""
    real = ratings(draws)
    release = real.set_column(0, "person", pa.array(draws.permutation(real["person"].to_numpy())))
    told = found("scoreboard", release, RATINGS, original=real, knows=4)
    assert told.success.value <= told.baseline.high


def test_everybody_with_the_same_ratings_is_claimed_by_nobody(found: Attacked) -> None:
    alike = {
        "person": [one for one in range(30) for _ in range(5)],
        "item": [item for _ in range(30) for item in range(5)],
    }
    told = found("scoreboard", alike, schema(person=Kind.INTEGER, item=Kind.INTEGER), knows=3)
    assert told.victims == 0


POINTS = schema(person=Kind.TEXT, time=Kind.TEXT, lon=Kind.REAL, lat=Kind.REAL)


def test_points_that_are_a_persons_alone(found: Attacked) -> None:
    """Two walk together all day, one alone; and one has a single point."""
    hours = [f"2013-07-01T{hour:02d}:10:00" for hour in range(6)]
    rows: dict[str, list[Any]] = {"person": [], "time": [], "lon": [], "lat": []}
    for person, lon in (("a", 1.0), ("b", 1.0001), ("c", 2.0)):
        rows["person"] += [person] * 6
        rows["time"] += hours
        rows["lon"] += [lon] * 6
        rows["lat"] += [5.0] * 6
    for name, value in zip(rows, ("d", hours[0], 9.0, 9.0), strict=True):
        rows[name].append(value)
    told = found("path", rows, POINTS, knows=2)
    assert (told.success.tried, told.victims) == (3, 1)
    assert told.examples == [{"person": "c"}]
    assert found("path", rows, POINTS, knows=1, cell=1e-5).victims == 4
    assert found("path", rows, POINTS, knows=2, cell=100).victims == 0


def test_points_are_looked_for_in_the_release(found: Attacked) -> None:
    real = {"person": ["a", "a", "b", "b"], "time": [0, 3600, 0, 3600], "place": list("xyzw")}
    declared = schema(person=Kind.TEXT, time=Kind.INTEGER, place=Kind.TEXT)
    told = found("path", real, declared, original=real, knows=2)
    assert told.victims == 2
    assert told.success.value > told.baseline.value
    for places in ("zwzw", "zwxy"):  # somebody else's
        told = found("path", {**real, "place": list(places)}, declared, original=real, knows=2)
        assert told.victims == 0
        assert told.success.value <= told.baseline.high


def test_days_alone_are_no_times(found: Attacked) -> None:
    rows = {"person": ["a", "b"], "time": ["2013-07-01", "2013-07-02"], "place": ["x", "y"]}
    declared = schema(person=Kind.TEXT, time=Kind.DATE, place=Kind.TEXT)
    with pytest.raises(ParameterError, match="minutes=1440"):
        found("path", rows, declared, knows=1)
    assert found("path", rows, declared, knows=1, minutes=1440).victims == 2


@pytest.mark.skipif(not DATA.exists(), reason="the shared data is not here")
@pytest.mark.parametrize(
    ("cell", "every", "shares"),
    [(0.005, 15, (0.194, 0.766, 0.926, 0.979)), (0.01, 60, (0.043, 0.282, 0.552, 0.751))],
)
def test_taxis_are_as_unique_as_computed_before(
    cell: float, every: int, shares: tuple[float, ...]
) -> None:
    """Figures of another program on the same points; which are drawn moves them by 0.03 or so."""
    options = attack_options(columns={"person": "user"}, cell=cell, minutes=every)
    taxis = DATA / "trajectories" / "porto_taxi_points.csv.gz"
    found: Any = attack("path", taxis, options=options)
    assert found.success.value == pytest.approx(shares[-1], abs=0.05)
    told = [float(one.split()[1]) / 100 for one in found.remarks[0].split(":")[1].split(",")]
    assert told == pytest.approx(shares, abs=0.05)


LOG = schema(person=Kind.TEXT, query=Kind.TEXT, name=Kind.TEXT, town=Kind.TEXT)
LISTED = {
    "person": ["1", "2", "3", "4"],
    "name": ["John Smith", "Mary Jones", "Cat Stone", "John Smith"],
    "town": ["Leeds", "York", "York", "Hull"],
}


def test_people_who_search_for_themselves_are_found(found: Attacked) -> None:
    log = {
        "person": ["1", "1", "2", "2", "3", "4"],
        "query": [
            "john SMITH obituary",
            "rain in leeds",
            "jones, mary",
            "pizza york",
            "cat stone",
            "smith",
        ],
    }
    told = found("log", log, LOG, known=LISTED)
    assert (told.victims, told.success.tried) == (2, 4)
    assert told.examples == [{"person": "1"}, {"person": "2"}]
    nameless = {name: LISTED[name] for name in ("name", "town")}
    assert "no claim can be checked" in found("log", log, LOG, known=nameless).remarks[0]


def test_searches_without_names_find_nobody(found: Attacked) -> None:
    log = {"person": ["1", "2", "3"], "query": ["weather", "york", "how to bake bread"]}
    told = found("log", log, LOG, known=LISTED)
    assert (told.victims, told.beats_baseline) == (0, False)
    assert told.success.value <= told.baseline.high


EDGES = schema(source=Kind.INTEGER, target=Kind.INTEGER)


def test_a_star_shows_its_centre_and_a_ring_nobody(found: Attacked) -> None:
    star = {"source": [0] * 5, "target": [1, 2, 3, 4, 5]}
    told = found("neighbourhood", star, EDGES, hops=1)
    assert told.victims == 1
    assert told.success.value == pytest.approx((1 + 5 / 5) / 6)
    ring = {"source": list(range(9)), "target": [*range(1, 9), 0]}
    told = found("neighbourhood", ring, EDGES, hops=4)
    assert told.success.value == pytest.approx(told.baseline.value)
    assert told.victims == 0


def test_more_hops_tell_more_and_loops_and_repeats_nothing(found: Attacked) -> None:
    """A path of seven: by degree two kinds, by two hops three, by three hops four."""
    path = {"source": list(range(6)), "target": list(range(1, 7))}
    noisy = {"source": [*path["source"], 3, 1], "target": [*path["target"], 3, 0]}
    for hops, kinds in ((1, 2), (2, 3), (3, 4)):
        told = found("neighbourhood", noisy, EDGES, hops=hops)
        assert told.success.value == pytest.approx(kinds / 7)


def test_a_graph_that_was_changed_hides_people(found: Attacked) -> None:
    star = {"source": [0] * 5, "target": [1, 2, 3, 4, 5]}
    other = {"source": [1] * 5, "target": [0, 2, 3, 4, 5]}
    told = found("neighbourhood", other, EDGES, original=star, hops=1)
    assert told.victims == 0
    assert told.success.value == pytest.approx(4 / 5 / 6)


def test_columns_are_named_by_the_owner_the_unit_or_themselves(found: Attacked) -> None:
    rows = {"who": ["a", "b"], "when": [0, 60], "place": ["x", "y"]}
    declared = Schema(
        "data",
        (
            Column("who", Kind.TEXT, nullable=False),
            Column("when", Kind.INTEGER),
            Column("place", Kind.TEXT),
        ),
        Entity("who", max_rows=9),
    )
    assert found("path", rows, declared, columns=["time=when"], knows=1).victims == 2
    with pytest.raises(ParameterError, match="which column is the time"):
        found("path", rows, declared, knows=1)
    with pytest.raises(ParameterError, match="did you mean 'when'"):
        found("path", rows, declared, columns={"time": "whem"}, knows=1)


def test_times_are_read_as_they_are_written() -> None:
    texts = pa.array(["1970-01-01T01:00:00", "1970-01-01 02:00:00", None])
    assert minutes("path", "t", texts).tolist()[:2] == [60, 120]
    assert minutes("path", "t", pa.array(["60", "120.0"])).tolist() == [1, 2]
    with pytest.raises(ParameterError, match="holds no times"):
        minutes("path", "t", pa.array(["noon"]))


def test_hops_end_where_they_tell_no_more(found: Attacked) -> None:
    path = {"source": list(range(6)), "target": list(range(1, 7))}
    few, many = (found("neighbourhood", path, EDGES, hops=hops) for hops in (4, 999_999))
    assert many.success == few.success
    assert "tell no more" in many.remarks[0]


def test_who_is_only_with_themselves_is_a_node(found: Attacked) -> None:
    """Of a triangle and a loop, three look alike and the fourth is alone."""
    graph = {"source": [1, 2, 3, 4], "target": [2, 3, 1, 4]}
    told = found("neighbourhood", graph, EDGES, hops=1)
    assert (told.success.tried, told.victims) == (4, 1)
    assert told.success.value == pytest.approx(2 / 4)
    gone = {"source": [1, 2, 3], "target": [2, 3, 1]}
    told = found("neighbourhood", gone, EDGES, original=graph, hops=1)
    assert (told.success.tried, told.victims) == (4, 0)  # who is not released is not found


def test_a_blank_person_is_nobody(found: Attacked) -> None:
    release: dict[str, list[Any]] = {
        "person": [f"p{one}" for one in range(20) for _ in range(9)],
        "item": [one * 7 + item for one in range(20) for item in range(9)],
    }
    more = {"person": [*release["person"], *[None] * 9, *[" "] * 9]}
    more["item"] = [*release["item"], *range(18)]
    known = schema(person=Kind.TEXT, item=Kind.INTEGER)
    plain, blank = (found("scoreboard", one, known) for one in (release, more))
    assert blank.success.tried == plain.success.tried == 20
    assert blank.baseline == plain.baseline
