"""Questions to synthetic rows: what is asked is answered, and no bar is narrower than noise."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import sfumato as sf
from sfumato.errors import ParameterError, QueryError
from sfumato.methods.synth.error_bars import parsed, table_named

if TYPE_CHECKING:
    from sfumato.vault.syntheses import Synthesized

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 99), nullable=False),  # bins of two
        sf.Column("sex", sf.Kind.TEXT, domain=sf.Values(("F", "M")), nullable=False),
        sf.Column("cost", sf.Kind.REAL, domain=sf.Bounds(0, 10, step=Decimal("0.05"))),
        sf.Column("income", sf.Kind.INTEGER, domain=sf.Bounds(0, 1 << 40), nullable=False),
        sf.Column("town", sf.Kind.TEXT, nullable=False),
    ),
)


@pytest.fixture(scope="module")
def twin() -> Synthesized:
    age = np.arange(1000) % 100
    columns = {
        "age": age,
        "sex": np.where(age % 3 == 0, "F", "M"),
        "cost": age / 10,
        "income": age * 1000,
        "town": np.where(age > 60, "Rome", "Bonn"),
    }
    with closing(sf.read(pa.table(columns), schema=SCHEMA)) as people:
        private = sf.protect(people, epsilon=5, delta=1e-5)
        return private.synthesize(epsilon=4, delta=1e-6, method="independent")


def _bar(twin: Synthesized, where: str) -> Any:
    [row] = twin.query(f"SELECT COUNT(*) AS n FROM people WHERE {where}").to_pylist()
    return row["n_sd"]


def _expected(twin: Synthesized, cells: slice) -> Any:
    """The bar of some bins of age: their noise, and how far rows are from the noisy count."""
    [table] = [one for one in twin.model.log.merged().values() if one.columns == (0,)]
    ages = np.asarray(twin.table["age"]) // 2
    rows = np.bincount(ages, minlength=50)[cells].sum()
    scale = twin.table.num_rows / twin.model.fitted.total
    noise = scale**2 * table.variance * len(range(50)[cells])
    return pytest.approx((noise + (rows - scale * table.counts[cells].sum()) ** 2) ** 0.5)


@pytest.mark.parametrize(
    "where",
    [
        "age = 1",
        "age = 0",
        "age IN (1, 3, 5)",
        "age >= 99",
        "age % 2 = 1",
        "age < 51",
        "cost = 0.05",
        "income < 1000000",  # too many values to try them all
        "town = 'Oslo'",  # not discovered, which is not the same as absent
    ],
)
def test_a_question_that_cuts_a_bin_has_no_bar(twin: Synthesized, where: str) -> None:
    assert _bar(twin, where) is None


def test_a_question_of_whole_bins_has_a_bar_as_wide_as_they(twin: Synthesized) -> None:
    one = _bar(twin, "age < 2")
    assert one == _expected(twin, slice(1))
    assert _bar(twin, "age IN (0, 1)") == pytest.approx(one)
    assert _bar(twin, "age < 50") == _expected(twin, slice(25))
    assert _bar(twin, "age >= 0") == _expected(twin, slice(50))
    missing = _bar(twin, "cost IS NULL")  # that a value is missing, or no number: two cells
    assert missing > 0


def test_groups_that_cut_a_bin_have_no_bars_and_others_have(twin: Synthesized) -> None:
    cut = twin.query("SELECT age, COUNT(*) AS n FROM people GROUP BY age")
    assert set(cut["n_sd"].to_pylist()) == {None}
    whole = twin.query("SELECT age // 2 AS two, COUNT(*) AS n FROM people GROUP BY 1")
    for row in whole.to_pylist():
        assert row["n_sd"] == _expected(twin, slice(int(row["two"]), int(row["two"]) + 1))
    some = twin.query("SELECT COUNT(*) AS n, age >= 51 AS old FROM people GROUP BY 2")
    assert some["n_sd"].to_pylist() == [None, None]


def test_bars_are_found_wherever_the_count_stands(twin: Synthesized) -> None:
    behind = twin.query("SELECT COUNT(*) AS n, sex FROM people GROUP BY 2")
    shaped = twin.query("SELECT {'is': sex} AS s, COUNT(*) AS n FROM people GROUP BY ALL")
    expected = {one: pytest.approx(_bar(twin, f"sex = '{one}'")) for one in ("F", "M")}
    assert {one["sex"]: one["n_sd"] for one in behind.to_pylist()} == expected
    assert {one["s"]["is"]: one["n_sd"] for one in shaped.to_pylist()} == expected
    finer = twin.query("SELECT 'x' AS x, COUNT(*) AS n FROM people GROUP BY sex")
    assert finer["n_sd"].to_pylist() == [None, None]  # which of the two a row is nobody can tell


def test_a_question_that_only_values_of_no_row_fail_is_answered(twin: Synthesized) -> None:
    young = replace(twin, tables={"people": twin.table.filter(pc.field("age") < 50)})
    asked = "SELECT COUNT(*) AS n FROM people WHERE CASE WHEN age > 50 THEN error('x') ELSE 1 END"
    assert young.query(asked).to_pylist() == [{"n": young.table.num_rows, "n_sd": None}]


def test_a_bar_takes_no_name_that_the_answer_has(twin: Synthesized) -> None:
    asked = "SELECT sex AS n_sd, COUNT(*) AS n, COUNT(*) AS m FROM people GROUP BY sex"
    assert twin.query(asked).column_names == ["n_sd", "n", "n_sd_2", "m", "m_sd"]


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT COUNT(*) AS n FROM people a, people b, people c, people d",
        "SELECT COUNT(*) AS n FROM people JOIN visits ON true",
        "SELECT COUNT(*) AS n FROM people, generate_series(1, 3)",
        "SELECT COUNT(*) AS n FROM people TABLESAMPLE 10%",
        "WITH people AS (SELECT 5 AS age) SELECT COUNT(*) AS n FROM people",
        "SELECT COUNT(*) AS n FROM pg_catalog.people",
        "SELECT COUNT(*) AS n FROM people AS t(sex, age) WHERE sex = 1",
        "SELECT 'no end FROM people",
    ],
)
def test_what_would_be_another_question_is_refused(sql: str) -> None:
    with pytest.raises(QueryError, match="one SELECT from people alone") as refused:
        parsed(sql, "people")
    assert refused.value.code == "question_not_supported"


def test_a_table_is_named_in_any_case() -> None:
    assert table_named("SELECT 1 FROM Visits", ["people", "visits"]) == "visits"


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("(" * 300 + "1" + ")" * 300, "nested too deeply"),
        ("(" * 3000 + "1" + ")" * 3000, "nested too deeply"),
        ("NOT " * 5000 + "true", "nested too deeply"),
        ("getenv('HOME')", "cannot answer this SELECT"),
        ("sleep(1)", "cannot answer this SELECT"),
        ("current_setting('secret_directory')", "settings of this machine"),
    ],
)
def test_what_cannot_be_answered_is_refused_in_words(
    twin: Synthesized, asked: str, told: str
) -> None:
    with pytest.raises(QueryError, match=told) as refused:
        twin.query(f"SELECT {asked} AS x FROM people")
    assert refused.value.code == "question_not_supported"


def test_some_brackets_and_long_chains_are_read(twin: Synthesized) -> None:
    asked = "(" * 20 + " OR ".join(f"age = {one}" for one in range(40)) + ")" * 20
    assert _bar(twin, asked) == pytest.approx(_bar(twin, "age < 40"))


def test_a_marginal_of_no_columns_is_refused_in_words(twin: Synthesized) -> None:
    with pytest.raises(ParameterError, match="none named"):
        twin.model.marginal([])


def test_bars_of_a_table_of_another_size_are_about_shares() -> None:
    """Of all rows nothing is in doubt; what is not in one part is in the other."""
    schema = sf.Schema("people", SCHEMA.columns[:2])
    age = np.arange(1500) % 100
    people = pa.table({"age": age, "sex": np.where(age % 3 == 0, "F", "M")})
    within = 0
    for rows in (150, 20_000) * 8:
        twin = sf.protect(people, schema, epsilon=1).synthesize(
            epsilon=0.2, workload=[["sex", "age"]], rows=rows
        )
        told = twin.query("SELECT COUNT(*) AS n FROM people").to_pylist()
        assert told == [{"n": rows, "n_sd": pytest.approx(0, abs=1e-3)}]
        parts = twin.query("SELECT sex, COUNT(*) AS n FROM people GROUP BY sex").to_pylist()
        assert parts[0]["n_sd"] == pytest.approx(parts[1]["n_sd"])
        [women] = [one for one in parts if one["sex"] == "F"]
        within += abs(women["n"] - rows * 0.34) <= 1.96 * women["n_sd"]
    assert within >= 7  # of 16, each 0.908 likely at least: fails once in 1e6
