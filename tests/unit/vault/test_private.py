"""A table under a budget: how it is made from Python, asked, and looked up in help."""

from __future__ import annotations

import inspect
import pydoc
from typing import TYPE_CHECKING, Any

import pandas as pd
import polars as pl
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, SfumatoError
from sfumato.methods.method import Forecast
from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 99), nullable=False),
        sf.Column("city", sf.Kind.TEXT, domain=sf.Values(("a", "b")), nullable=False),
    ),
)
FRAME = pd.DataFrame(
    {"age": [n % 50 for n in range(200)], "city": ["ab"[n % 2] for n in range(200)]}
)


def test_a_data_frame_is_protected_with_its_schema(tmp_path: Path) -> None:
    SCHEMA.save(tmp_path / "people.toml")
    for table, schema in (
        (FRAME, SCHEMA),
        (pl.from_pandas(FRAME).lazy(), tmp_path / "people.toml"),
        (FRAME.to_dict("records"), str(tmp_path / "people.toml")),
    ):
        private = sf.protect(table, schema, epsilon=9)
        # Noise of scale 1/9: beyond 5 with probability below exp(-45).
        assert (
            abs(
                private.query("SELECT COUNT(*) AS n FROM people", epsilon=9).table["n"][0].as_py()
                - 200
            )
            < 5
        )


def test_what_is_not_declared_is_not_guessed() -> None:
    with pytest.raises(ParameterError) as refusal:
        sf.protect(FRAME, epsilon=1)
    assert refusal.value.code == "schema_missing"
    with pytest.raises(ParameterError) as refusal:
        sf.protect(sf.read(FRAME, SCHEMA), SCHEMA, epsilon=1)
    assert refusal.value.code == "options_conflict"


def test_ranges_come_from_a_file_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "w.csv").write_text("age_low,age_high\n0,24\n25,49\n")
    private = sf.protect(FRAME, SCHEMA, epsilon=9)
    for workload in (str(tmp_path / "w.csv"), tmp_path / "w.csv", [[[0, 24]], [[25, 49]]]):
        found = private.above(columns="age", workload=workload, threshold=10, epsilon=1)
        assert found.table.num_rows > 0
    assert private.remaining["epsilon"] == pytest.approx(8)  # all three are the same question


def test_help_tells_of_every_method() -> None:
    private = sf.protect(FRAME, SCHEMA, epsilon=1)
    for name, family in FAMILIES.items():
        assert name in dir(private)
        method = getattr(private, name)
        told = pydoc.render_doc(method)
        assert all(amount in told for amount in family.cost), name
        assert "request_id" in inspect.signature(method).parameters
        assert inspect.getdoc(method)


def test_frames_have_error_bars() -> None:
    private = sf.protect(FRAME, SCHEMA, epsilon=9, delta=1e-6)
    asked = "SELECT city, COUNT(*) AS n, COUNT(*) AS n_sd, AVG(age) AS mean, MEDIAN(age) AS middle"
    answer = private.query(f"{asked} FROM people GROUP BY city", epsilon=5)
    columns = [
        "city",
        "n",
        "n_sd_2",
        "n_sd",
        "n_sd_sd",
        "mean",
        "mean_sd",
        "middle",
        "middle_ranks95",
    ]
    assert list(answer.to_pandas().columns) == columns
    assert answer.to_polars().columns == columns
    assert answer.table.column_names == ["city", "n", "n_sd", "mean", "middle"]
    error: Any = answer.error
    assert answer.to_pandas()["n_sd_2"].tolist() == [error["n"]["sd"]] * 2
    assert answer.to_pandas()["mean_sd"].tolist() == error["mean"]["sd"]


def test_publications_have_error_bars() -> None:
    private = sf.protect(FRAME, SCHEMA, epsilon=9)
    published = private.publish("histogram", columns="city", epsilon=1)
    assert list(published.to_pandas().columns) == ["city", "count", "count_sd"]
    adjusted = private.publish("histogram", columns="city", epsilon=1, postprocess="nonnegative")
    assert list(adjusted.to_pandas().columns) == ["city", "count"]


def test_what_is_not_noisy_has_none() -> None:
    column = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, hierarchy=sf.Widths((5, 50)))
    release = sf.read(FRAME[["age"]], sf.Schema("people", (column,))).anonymize(k=5)
    assert list(release.to_pandas().columns) == ["age"]


def test_sums_of_tenths_fit_into_their_budget_and_are_shown_short() -> None:
    private = sf.protect(FRAME, SCHEMA, epsilon=0.3)
    question = "SELECT COUNT(*) AS n FROM people"
    told = private.explain(question, epsilon=0.1 + 0.2)
    assert "epsilon 0.3;" in repr(told)
    assert "3/10" not in str(told._repr_html_())
    answer = private.query(question, epsilon=0.1 + 0.2)
    assert answer.cost_in_words == "epsilon 0.3"
    assert private.remaining["epsilon"] == 0


def test_a_plan_names_columns_as_they_are_and_ranks_as_decimals() -> None:
    bounds = sf.Bounds(0, 3)
    columns = (
        sf.Column(one, sf.Kind.INTEGER, domain=bounds, nullable=False) for one in ("sd", "b_c")
    )
    schema = sf.Schema("people", tuple(columns))
    private = sf.protect(pd.DataFrame({"sd": [1], "b_c": [2]}), schema, epsilon=3)
    marginals = Forecast(private.plan("marginals", columns=["sd", "b_c"], epsilon=0.5)).text()
    assert "Expected error, tables: sd,b_c cells 16" in marginals
    quantiles = Forecast(private.plan("quantiles", columns="sd", epsilon=0.5)).text()
    assert "Chosen, ranks: 0.25; 0.5; 0.75" in quantiles
    assert "0.5 95 % bound of the rank" in quantiles
    assert "1/" not in quantiles


def test_of_several_tables_one_is_named_or_a_word_is_said() -> None:
    private = sf.protect(FRAME, SCHEMA, epsilon=3)
    made = private.publish("marginals", columns=["age", "city"], epsilon=1, way=1)
    assert list(made.to_pandas(table="city").columns)[:2] == ["city", "count"]
    assert made.to_polars(table="age").columns[0] == "age"
    with pytest.warns(UserWarning, match=r"2 tables.*table=.*'age', 'city'"):
        made.to_pandas()
    with pytest.raises(ParameterError) as refusal:
        made.to_pandas(table="sex")
    assert refusal.value.code == "choice_unknown"


def test_a_total_is_told_from_a_group_of_missing_values() -> None:
    city = sf.Column("city", sf.Kind.TEXT, domain=sf.Values(("a", "b")))
    private = sf.protect(FRAME[["city"]], sf.Schema("people", (city,)), epsilon=3)
    asked = "SELECT city, COUNT(*) AS n FROM people GROUP BY {}"
    answer = private.query(asked.format("ROLLUP(city)"), epsilon=1)
    (total,) = answer.totals["city"]
    assert [row for row, one in enumerate(answer.table["city"].to_pylist()) if one is None] != [
        total
    ]
    assert answer.to_json()["totals"] == {"city": [total]}
    plain = private.query(asked.format("city"), epsilon=1)
    assert not plain.totals
    assert "totals" not in plain.to_json()


def test_a_card_of_many_rows_has_bars_too() -> None:
    age = sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 2_500))
    private = sf.protect(FRAME[["age"]], sf.Schema("people", (age,)), epsilon=9)
    answer = private.query("SELECT age, COUNT(*) AS n FROM people GROUP BY age", epsilon=9)
    assert answer.table.num_rows > 2_000
    card = str(answer._repr_html_())
    assert "± 95" in card
    assert "(missing)" in card


def test_refusals_name_keywords_not_flags(tmp_path: Path) -> None:
    private = sf.protect(FRAME, SCHEMA, epsilon=1)
    question = "SELECT COUNT(*) AS n FROM people"
    answer = private.query(question, epsilon=0.5)
    place = tmp_path / "taken.csv"
    place.write_text("mine")
    picture = tmp_path / "taken.svg"
    picture.write_text("mine")
    doors: dict[str, Any] = {
        "epsilon=": lambda: private.query(question, epsilon=2),
        "ask without delta= and rho=": lambda: private.query(question, rho=1),
        "with epsilon=": lambda: private.publish("histogram", columns="city", epsilon=2),
        "overwrite=True": lambda: answer.save(place),
        "pass overwrite=True": lambda: answer.report(place),
        "or pass overwrite=True": lambda: SCHEMA.save(place),
        "name or pass overwrite=True": lambda: answer.plot().save(picture),
    }
    for words, door in doors.items():
        with pytest.raises(SfumatoError) as refusal:
            door()
        assert words in refusal.value.message
        assert "--" not in refusal.value.message


def test_wrong_bounds_and_places_are_refused_in_words() -> None:
    private = sf.protect(FRAME, SCHEMA, epsilon=1)
    picture = private.query("SELECT COUNT(*) AS n FROM people", epsilon=0.5).plot()[0]
    for wrong in (lambda: sf.Bounds("a", "b"), lambda: picture.save(5)):  # type: ignore[arg-type]
        with pytest.raises(ParameterError) as refusal:
            wrong()
        assert refusal.value.code == "parameter_type_wrong"


def test_times_of_day_are_refused_with_what_to_do() -> None:
    frame = pd.DataFrame({"seen": pd.to_datetime(["2020-01-01 10:00", "2021-01-01 11:30"])})
    with pytest.raises(SfumatoError, match=r"time of day.*Cut the column to days.*normalize"):
        sf.read(frame).inspect()


def test_what_cannot_be_measured_says_why() -> None:
    schema = sf.Schema("t", tuple(sf.Column(one, sf.Kind.INTEGER) for one in "ab"))
    table = sf.read(pd.DataFrame({"a": [1], "b": [2]}), schema)
    with pytest.raises(SfumatoError) as refusal:
        table.measure()
    assert refusal.value.code == "role_invalid"
    with pytest.raises(ParameterError, match="not '2,5%'"):
        table.anonymize(k=2, suppress="2,5%")
