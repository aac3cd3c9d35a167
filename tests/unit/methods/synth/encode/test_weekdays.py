"""Days of the week that are measured beside bins of dates: what has no Sundays keeps none."""

from __future__ import annotations

from contextlib import closing
from datetime import date, timedelta
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato as sf
from sfumato.data.counting.frequencies import count
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.errors import ParameterError
from sfumato.methods.synth.encode.axes import Bins, Weekdays, codes_in
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from pathlib import Path

LOW, HIGH = date(2023, 3, 29), date(2025, 2, 2)
BOUNDS = Bounds(LOW, HIGH)
BINS = Bins("day", Kind.DATE, BOUNDS, True, (0, 3, 40, 400))
WEEK = Weekdays.of(BINS.fine, "day.weekday")


def days(first: date, number: int) -> list[date]:
    return [first + timedelta(days=one) for one in range(number)]


def test_every_day_is_counted_on_its_own_of_the_week() -> None:
    """Days beyond the bounds are the nearest ones within them, and what is missing is missing."""
    there = [*days(LOW - timedelta(days=3), 700), None, None]
    within = [None if one is None else min(max(one, LOW), HIGH) for one in there]
    table = pa.table({"day": pa.array(there, pa.date32())})
    with closing(open_duckdb(table)) as engine:
        found = count(engine, engine.table, [WEEK]).dense()
    expected = np.bincount([7 if one is None else one.weekday() for one in within])
    assert found.tolist() == expected.tolist()
    assert WEEK.decode(np.arange(8)).to_pylist()[::6] == ["Monday", "Sunday"]
    clamped = pa.table({"day": pa.array(within, pa.date32())})
    assert np.bincount(codes_in(WEEK, clamped)).tolist() == expected.tolist()


def test_a_day_is_drawn_from_its_bin_on_its_day_of_the_week() -> None:
    bins, weekdays = np.indices((5, 8)).reshape(2, -1).repeat(60, axis=1)
    drawn = WEEK.spread(BINS, bins, weekdays, SeededEntropy(1)).to_pylist()
    points = {one: place for place, one in enumerate(days(LOW, BINS.fine.points))}
    seen = set()
    for day, place, on in zip(drawn, bins.tolist(), weekdays.tolist(), strict=True):
        assert (day is None) == (place == 4)
        if day is not None:
            assert BINS.bins_of(np.array([points[day]])) == place
            seen.add((place, on, day))
            if place > 0 and on < 7:  # the first bin has three days alone
                assert day.weekday() == on
    assert len({one for place, on, one in seen if (place, on) == (1, 2)}) == 5  # every one of them
    assert {one for place, on, one in seen if (place, on) == (0, 0)} == {*days(LOW, 3)}


SCHEMA = sf.Schema(
    "visits",
    (
        sf.Column("day", sf.Kind.DATE, domain=sf.Bounds(date(2022, 1, 1), date(2023, 12, 31))),
        sf.Column("ward", sf.Kind.TEXT, domain=sf.Values(("eye", "lung")), nullable=False),
    ),
)


def visits() -> pa.Table:
    """Nobody comes at a weekend, and the eye ward is open on Mondays alone; some days are lost."""
    workdays = [one for one in days(date(2022, 1, 1), 730) if one.weekday() < 5] * 8
    ward = ["eye" if one.weekday() == 0 else "lung" for one in workdays]
    lost = [None if place % 50 == 0 else one for place, one in enumerate(workdays)]
    return pa.table({"day": pa.array(lost, pa.date32()), "ward": ward})


def weekend(table: pa.Table) -> float:
    there = np.array(table.column("day").drop_null(), dtype="datetime64[D]")
    return 1 - float(np.is_busday(there).mean())


def test_empty_weekends_stay_empty(tmp_path: Path) -> None:
    private = sf.protect(visits(), SCHEMA, epsilon=10)
    assert weekend(private.synthesize(epsilon=1, method="independent").table) > 0.2
    twin = private.synthesize(epsilon=1, weekdays="day", method="independent")
    assert twin.table.column_names == ["day", "ward"]
    assert weekend(twin.table) < 0.02
    assert twin.table.column("day").null_count > 0
    told = twin.model.marginal(["day.weekday"]).to_pydict()
    noisy = dict(zip(told["day.weekday"], told["count"], strict=True))
    assert noisy["Monday"] > 500
    assert abs(noisy["Sunday"]) < 100
    twin.save(tmp_path / "twin.csv", report=tmp_path / "twin.html", model=tmp_path / "m.arrow")
    assert "day.weekday" in (tmp_path / "twin.html").read_text()
    again = sf.SynthesisModel.load(tmp_path / "m.arrow").draw(500)
    assert weekend(again) < 0.02
    bounds = again.column("day").drop_null().to_pylist()
    assert date(2022, 1, 1) <= min(bounds) <= max(bounds) <= date(2023, 12, 31)


def test_what_hangs_on_a_day_of_the_week_can_be_asked_for() -> None:
    private = sf.protect(visits(), SCHEMA, epsilon=10)
    twin = private.synthesize(epsilon=9, weekdays=["day"], workload=[["ward", "day.weekday"]])
    rows = twin.table.filter(pa.array(np.asarray(twin.table["day"].is_valid()))).to_pylist()
    eyes = [one["day"].weekday() for one in rows if one["ward"] == "eye"]
    assert len(eyes) > 500
    assert sum(one == 0 for one in eyes) / len(eyes) > 0.9
    mondays = twin.model.draw(50, given={"day": "2022-06-06"})
    assert mondays["day"].unique().to_pylist() == [date(2022, 6, 6)]


@pytest.mark.parametrize("name", ["ward", "near"])
def test_days_of_the_week_are_refused_where_there_are_none(name: str) -> None:
    near = sf.Column("near", sf.Kind.DATE, domain=sf.Bounds(date(2022, 1, 1), date(2022, 1, 9)))
    schema = sf.Schema("visits", (*SCHEMA.columns, near))
    table = visits().append_column("near", pa.array([date(2022, 1, 3)] * visits().num_rows))
    private = sf.protect(table, schema, epsilon=9)
    with pytest.raises(ParameterError) as refusal:
        private.synthesize(epsilon=1, weekdays=name)
    assert refusal.value.code == "option_not_applicable"
    assert "'day'" in refusal.value.message
    assert private.remaining["epsilon"] == 9


def test_of_a_parent_and_of_a_child(tmp_path: Path) -> None:
    key = sf.Column("who", sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False)
    born = sf.Column("born", sf.Kind.DATE, domain=sf.Bounds(date(1950, 1, 1), date(1999, 12, 31)))
    rows = visits().append_column("who", pa.array(np.arange(visits().num_rows) % 1000))
    tables = {
        sf.Schema("people", (key, born), sf.Entity("who", 1)): pa.table(
            {"who": np.arange(1000), "born": pa.array([date(1980, 5, 5)] * 1000)}
        ),
        sf.Schema("visits", (*SCHEMA.columns, key), sf.Entity("who", 8)): rows,
    }
    with sf.init(tmp_path / "vault") as vault:
        for schema, table in tables.items():
            parquet.write_table(table, tmp_path / f"{schema.table}.parquet")
            schema.save(tmp_path / f"{schema.table}.toml")
            source, declared = (tmp_path / f"{schema.table}.{end}" for end in ("parquet", "toml"))
            budget = (
                {"epsilon": 10, "delta": 1e-5}
                if schema.table == "people"
                else {"population": "people"}
            )
            vault.add(schema.table, source, declared, **budget)
        twins = vault.synthesize(
            "people",
            child="visits",
            key="who",
            weekdays="day,born",
            epsilon=9,
            delta=1e-6,
            method="mst",
        )
        assert weekend(twins.tables["visits"]) < 0.1  # of 8 rows a person there is more noise
        on = [one.weekday() for one in twins.table["born"].drop_null().to_pylist()]
        assert on.count(date(1980, 5, 5).weekday()) > 0.8 * len(on)
        twins.save(tmp_path / "out", report=tmp_path / "p.html", model=tmp_path / "m.arrow")
    again = sf.SynthesisModel.load_linked(tmp_path / "m.arrow").draw(300)
    assert weekend(again["visits"]) < 0.1
