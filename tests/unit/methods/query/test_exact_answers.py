"""Without bounds and noise, a plan's answer is what DuckDB says to the question itself."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from sqlglot import exp

from sfumato.data.counting.axes import Grid
from sfumato.data.counting.contribution import PERSON
from sfumato.data.counting.hashing import Keyed
from sfumato.data.engines.base import named
from sfumato.data.engines.postgres import Postgres
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.engines.spark.engine import Spark
from sfumato.methods.query.plan import NOISY, Function
from sfumato.methods.query.plan.planner import plan_question
from sfumato.methods.query.sql.work_limits import insert_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.data.engines.base import Engine
    from sfumato.methods.query.plan import Measure, Plan
    from sfumato.methods.query.sql.tables import Catalogue

FIRST = date(2020, 1, 1)
QUESTIONS = Path(__file__).with_name("answers.sql").read_text().split(";\n")[:-1]


def random_tables() -> dict[str, pa.Table]:
    """Small tables inside their declared bounds, with missing values and repeated people."""
    draw = np.random.default_rng(11)

    def some(values: Any, rows: int, missing: float = 0.1) -> list[Any]:
        picked = [values[place] for place in draw.integers(len(values), size=rows)]
        return [None if draw.random() < missing else one for one in picked]

    def people(rows: int) -> pa.Table:
        days = [FIRST - timedelta(days=int(k)) for k in range(0, 9000, 13)]
        return pa.table(
            {
                "id": pa.array(some(range(40), rows, 0), pa.int64()),
                "age": pa.array(some(range(111), rows), pa.int64()),
                "city": some("ABC", rows),
                "spend": pa.array(some([k / 2 for k in range(200)], rows), pa.float64()),
                "grade": pa.array(some([k / 2 for k in range(1, 11)], rows), pa.float64()),
                "born": pa.array(some(days, rows), pa.date32()),
                "smoker": some([True, False], rows, 0),
                "name": some(["n1", "n2", "x"], rows),
                "wide": pa.array(some(range(9), rows), pa.int64()),
                "wild": pa.array(some([0.5, 7.0], rows), pa.float64()),
            }
        )

    places = {"city": ["A", "B", "C", None], "region": ["N", "S", None, "N"]}
    heaps = {name: values * 3 for name, values in places.items()}
    return {
        "people": people(200),
        "solo": people(150),
        "visits": pa.table(
            {
                "patient": pa.array(some(range(50), 300, 0), pa.int64()),
                "cost": pa.array(some(range(1001), 300), pa.int64()),
                "day": pa.array([FIRST + timedelta(days=k) for k in range(300)], pa.date32()),
                "ward": some("xy", 300),
            }
        ),
        "places": pa.table({**places, "size": pa.array([30, 40, None, 50], pa.int64())}),
        "heaps": pa.table({**heaps, "size": pa.array([30, 40, None, 50] * 3, pa.int64())}),
    }


@pytest.fixture(scope="module")
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as opened:
        for name, table in random_tables().items():
            opened.register(name, table)
        yield opened


def measured(measure: Measure) -> str:
    """The exact aggregate of a measure over the rows of the source, as DuckDB's SQL."""
    column = measure.argument and measure.argument.column
    step = float(measure.argument.step) if measure.argument else 1.0
    match measure.function:
        case Function.COUNT:
            return f"COUNT({column or '*'})"
        case Function.COUNT_PEOPLE:
            return f"COUNT(DISTINCT {PERSON})"
        case Function.COUNT_DISTINCT:
            return f"COUNT(DISTINCT {column})"
        case Function.SUM:
            return f"SUM({column}) * {step}"
        case Function.AVERAGE:
            return f"AVG({column}) * {step}"
        case Function.VARIANCE:
            return f"VARIANCE({column}) * {step * step}"
        case _:
            assert measure.argument is not None
            assert measure.quantile is not None
            value = f"QUANTILE_DISC({column}, {float(measure.quantile)}) * {step}"
            dated = measure.argument.kind == "date"
            return f"DATE '1970-01-01' + CAST({value} AS INTEGER)" if dated else value


def answered(plan: Plan, connection: duckdb.DuckDBPyConnection) -> list[tuple[Any, ...]]:
    """Aggregate the source exactly, call that the noisy table, and finish."""
    sets = ", ".join(
        "(" + ", ".join(plan.keys[place].column for place in level) + ")" for level in plan.levels
    )
    selected = [key.column for key in plan.keys] + [measured(one) for one in plan.measures]
    names = [key.name for key in plan.keys] + [one.name for one in plan.measures]
    outputs = ", ".join(f'{one} AS "c{place}"' for place, one in enumerate(selected))
    source = insert_hash(plan.source, Keyed("salt")).sql("duckdb", identify=True)
    group = f"GROUP BY GROUPING SETS ({sets})" if plan.keys else ""
    table = connection.sql(f"SELECT {outputs} FROM ({source}) {group}").to_arrow_table()
    table = table.rename_columns(names)
    for place, key in enumerate(plan.keys):
        if isinstance(key.axis, Grid):
            codes = table.column(place).combine_chunks()
            shown = key.axis.decode(codes.fill_null(key.axis.points).to_numpy())
            table = table.set_column(place, key.name, shown)
    connection.register(NOISY, table)
    return connection.sql(plan.finish.sql("duckdb", identify=True)).fetchall()


def rounded(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Rows to compare, in an order of their own."""
    plain = [
        tuple(
            round(float(one), 6) if isinstance(one, int | float) and not isinstance(one, bool)
            else one.isoformat()[:10] if isinstance(one, date) else one
            for one in row
        )
        for row in rows
    ]  # fmt: skip
    return sorted(plain, key=repr)


@pytest.mark.parametrize("sql", QUESTIONS)
def test_exact_answer(
    sql: str, catalogue: Catalogue, connection: duckdb.DuckDBPyConnection
) -> None:
    plan = plan_question(sql, catalogue).plan
    wanted = connection.sql(sql).fetchall()
    assert rounded(answered(plan, connection)) == rounded(wanted)
    assert wanted


def source_counts(plan: Plan, tables: dict[str, pa.Table]) -> Counter[tuple[Any, ...]]:
    """The rows of a source, with how often each occurs."""
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        source = insert_hash(plan.source, Keyed("salt")).sql("duckdb", identify=True)
        return Counter(connection.sql(source).fetchall())


def without(table: pa.Table, column: str, person: int) -> pa.Table:
    return table.filter(pc.not_equal(table[column], person))


@pytest.mark.parametrize("sql", [sql for sql in QUESTIONS if "solo" not in sql])
def test_a_person_owns_rows_of_the_source_and_touches_no_other(
    sql: str, catalogue: Catalogue
) -> None:
    plan = plan_question(sql, catalogue).plan
    tables = random_tables()
    everybody = source_counts(plan, tables)
    place = plan.source.named_selects.index(PERSON)
    for person in (0, 7, 39):
        fewer = dict(tables)
        fewer["people"] = without(tables["people"], "id", person)
        fewer["visits"] = without(tables["visits"], "patient", person)
        others = Counter({row: n for row, n in everybody.items() if row[place] != person})
        assert source_counts(plan, fewer) == others


@pytest.mark.parametrize("sql", [sql for sql in QUESTIONS if "solo" in sql])
@pytest.mark.parametrize("lost", [0, 77])
def test_a_row_touches_no_more_rows_of_the_source_than_are_said(
    sql: str, lost: int, catalogue: Catalogue
) -> None:
    """F18: also where a public table holds more rows of a key than it declares."""
    plan = plan_question(sql, catalogue).plan
    tables = random_tables()
    tables["places"] = tables["heaps"]
    solo = tables["solo"]
    rest = pa.concat_tables([solo.slice(0, lost), solo.slice(lost + 1)])
    everything = source_counts(plan, tables)
    everything.subtract(source_counts(plan, {**tables, "solo": rest}))
    assert sum(map(abs, everything.values())) <= plan.multiplicity


RELATIONAL = [sql for sql in QUESTIONS if "JOIN" in sql or sql.count("SELECT") > 1]


def source_rows(engine: Engine, questions: list[str], catalogue: Catalogue) -> list[Any]:
    """The rows of the source of each question, in an order of their own."""
    found = []
    with ExitStack() as stack:
        stack.callback(engine.close)
        lent = {
            name: stack.enter_context(engine.lend(table)) for name, table in random_tables().items()
        }
        for sql in questions:
            source = insert_hash(plan_question(sql, catalogue).plan.source, Keyed("salt"))
            for table in list(source.find_all(exp.Table)):
                placed = lent[table.name].copy()
                placed.set("alias", table.args["alias"].copy())
                table.replace(placed)
            rows = engine.run(source)
            found.append(rounded(list(zip(*(c.to_pylist() for c in rows.columns), strict=True))))
    assert all(found)
    return found


def test_postgres_yields_the_same_rows_of_every_source(
    postgres_url: str, catalogue: Catalogue
) -> None:
    wanted = source_rows(open_duckdb(pa.table({"a": [1]})), RELATIONAL, catalogue)
    assert source_rows(Postgres(postgres_url, named("none")), RELATIONAL, catalogue) == wanted


def test_spark_yields_the_same_rows_of_some_sources(
    spark_session: Any, catalogue: Catalogue
) -> None:
    some = [sql for sql in RELATIONAL if "EXISTS" in sql or "LEAST" in sql or "places" in sql]
    wanted = source_rows(open_duckdb(pa.table({"a": [1]})), some, catalogue)
    assert source_rows(Spark(spark_session, named("none")), some, catalogue) == wanted
