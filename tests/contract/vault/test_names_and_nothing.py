"""Columns and outputs called like names of ours, extremes, and groups of which none is left.

On every engine: a name of the data or of the question never meets one of ours, bounds at the ends
of 64 bits give the same figures, and nothing to answer is an empty answer.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.methods.publish.catalogue import KINDS_OF_ROWS
from sfumato.privacy.ledger.receipt import Receipt, Stage
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

    Open = Callable[[pa.Table], Engine]

LOW, HIGH = -(2**63), 2**63 - 1
DAYS = (dt.date(2020, 1, 1), dt.date(2020, 12, 31))
TYPES = {"p": pa.int64(), "k": pa.string(), "x": pa.int64(), "d": pa.date32()}
OWN = ("person", "c0", "r0", "k0", "a0", "n", "cell", "count")
"""Names that our own queries use beside those that begin with sf_."""
RESERVED = ("sf_person", "SF_Person", "sf_row", "sf_count", "sf_weight", "sf_key_0", "sf_hash")


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    def entropy(receipt: Receipt) -> SeededEntropy:
        receipt.advance(Stage.DRAWN, {Stage.RESERVED})
        return SeededEntropy(3)

    monkeypatch.setattr(Receipt, "entropy", entropy)


def protected(engine: Engine, columns: tuple[sf.Column, ...], unit: sf.Rows | sf.Entity) -> Any:
    held = sf.Table(engine, sf.Schema("t", columns), ("declared",) * len(columns))
    return sf.protect(held, unit=unit, epsilon=10, delta="0.1")


def figures_under(names: list[str], open_on: Open, questions: int) -> list[Any]:
    """What some questions and a publication say of a table whose columns go by these names."""
    person, *others = names
    bounds = sf.Bounds(0, 3)
    columns = (
        sf.Column(person, sf.Kind.INTEGER, nullable=False),
        *(sf.Column(one, sf.Kind.INTEGER, domain=bounds, nullable=False) for one in others),
    )
    rows: dict[str, list[int]] = {person: [1, 1, 1, 2, 2, 3]}
    rows |= {one: [(at + row) % 4 for row in range(6)] for at, one in enumerate(others)}
    table = protected(open_on(pa.table(rows)), columns, sf.Entity(person, 2, 1))
    p, a, b, c = (f'"{one}"' for one in names[:4])
    asked = (
        f"""SELECT {a}, COUNT(*), COUNT(DISTINCT {p}), COUNT(DISTINCT {b}), SUM({c}), MEDIAN({b})
            FROM t GROUP BY {a}""",
        f"""SELECT AVG(LEAST(GREATEST(s.z, 0), 5)), SUM(s.{c}), SUM(s.y) FROM (SELECT {p}, {c},
            MAX({a}) AS y, SUM({b}) AS z FROM t GROUP BY {p}, {c}) s""",
        f"""SELECT COUNT(*) FROM t {names[5]} JOIN (SELECT * FROM t) {names[6]} ON
            {names[5]}.{p} = {names[6]}.{p} AND {names[5]}.{a} = {names[6]}.{b}""",
    )
    answers = [
        list(table.query(one, epsilon=1).table.to_pydict().values()) for one in asked[:questions]
    ]
    published = table.publish("marginals", columns=[names[1], names[-1]], epsilon=1)
    return [*answers, *(list(one.to_pydict().values()) for one in published.tables.values())]


def check_names(open_on: Open, questions: int = 3) -> None:
    """Renaming every column changes not one figure."""
    plain = [f"plain{place}" for place in range(len(OWN))]
    expected = figures_under(plain, open_on, questions)
    assert figures_under(list(OWN), open_on, questions) == expected
    for name in RESERVED:
        with pytest.raises(sf.SfumatoError) as refused:
            figures_under([*OWN[:-1], name], open_on, questions)
        assert refused.value.code == "name_taken"


EXTREMES = sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(LOW, HIGH, 3), nullable=False)
FAR = sf.Column("y", sf.Kind.INTEGER, domain=sf.Bounds(LOW, LOW + 15 * 2**60, 2**60))


def figures_at_extremes(open_on: Open) -> list[Any]:
    rows = {"x": [LOW, LOW + 1, LOW + 2, -1, 0, 1, HIGH - 1, HIGH], "y": [LOW, HIGH, 0, None] * 2}
    engine = open_on(pa.table({name: pa.array(one, pa.int64()) for name, one in rows.items()}))
    table = protected(engine, (EXTREMES, FAR), sf.Rows())
    asked = (
        "SELECT y, COUNT(*) AS n FROM t GROUP BY y",
        "SELECT MEDIAN(y), VARIANCE(x), COUNT(DISTINCT x), MAX(y), COUNT(y) FROM t",
    )
    answers = [table.query(one, epsilon=1).table.to_pydict() for one in asked]
    published = table.publish("histogram", columns=["y"], epsilon=1).tables.values()
    return [*answers, *(one.to_pydict() for one in published)]


def check_nothing(open_on: Open) -> None:
    """No key passes the threshold: an empty answer of the right types, whatever is asked."""
    columns = (
        sf.Column("p", sf.Kind.INTEGER, nullable=False),
        sf.Column("k", sf.Kind.TEXT),
        sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(0, 9)),
        sf.Column("d", sf.Kind.DATE, domain=sf.Bounds(*DAYS)),
    )
    asked = (
        "SELECT k, MEDIAN(x) AS m, MAX(d) AS d, QUANTILE(x / 2.0, 0.25) AS q, COUNT(*) AS n, "
        "COUNT(DISTINCT x) AS c, SUM(x) AS s, AVG(x) AS a, STDDEV(x) AS sd FROM t GROUP BY k"
    )
    nobody: dict[str, list[Any]] = {one: [] for one in TYPES}
    for rows in ({"p": [1], "k": ["a"], "x": [1], "d": [None]}, nobody):
        table = pa.table({one: pa.array(rows[one], kind) for one, kind in TYPES.items()})
        for unit in (sf.Rows(), sf.Entity("p", 2)):
            private = protected(open_on(table), columns, unit)
            answer = private.query(asked, epsilon="0.1", delta="1e-9")
            assert answer.table.num_rows == 0
            assert len(answer.table.column_names) == 9


def test_F_names_duckdb(duckdb_engine: Open) -> None:
    check_names(duckdb_engine)


def test_F_names_postgres(postgres_engine: Open) -> None:
    check_names(postgres_engine)


def test_F_names_spark(spark_engine: Open) -> None:
    check_names(spark_engine, 1)  # a question to Spark takes seconds, whatever it asks


def test_F_nothing_duckdb(duckdb_engine: Open) -> None:
    check_nothing(duckdb_engine)


def test_F_nothing_postgres(postgres_engine: Open) -> None:
    check_nothing(postgres_engine)


def test_F_nothing_spark(spark_engine: Open) -> None:
    check_nothing(spark_engine)


def test_F21_extremes_postgres(duckdb_engine: Open, postgres_engine: Open) -> None:
    assert figures_at_extremes(postgres_engine) == figures_at_extremes(duckdb_engine)


def test_F21_extremes_spark(duckdb_engine: Open, spark_engine: Open) -> None:
    assert figures_at_extremes(spark_engine) == figures_at_extremes(duckdb_engine)


def test_F_outputs_called_like_error_columns(duckdb_engine: Open) -> None:
    """An output called like an sd of ours once was answered by that sd."""
    column = sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(0, 9), nullable=False)
    table = protected(duckdb_engine(pa.table({"x": [5] * 1000})), (column,), sf.Rows())
    names = ["sf_sd_0", "SF_BOUND_0", "sf__sd_0", "sf_noisy"]
    outputs = ", ".join(f'{one} AS "{name}"' for one, name in zip(
        ("COUNT(*)", "SUM(x)", "AVG(x)", "COUNT(*) + 1"), names, strict=True
    ))  # fmt: skip
    answer = table.query(f"SELECT {outputs} FROM t", epsilon=1)
    assert answer.table.column_names == names
    (row,) = answer.table.to_pylist()
    assert [round(one, -2) for one in list(row.values())[:2]] == [1000, 5000]
    assert round(row["sf__sd_0"]) == 5
    assert all(answer.error[name]["bound95"] > 0 for name in names[:3])


def test_F_order_by_a_figure_whose_name_another_output_has(duckdb_engine: Open) -> None:
    column = sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(0, 2), nullable=False)
    rows = [0] * 2000 + [1] * 1000 + [2] * 3000
    table = protected(duckdb_engine(pa.table({"x": rows})), (column,), sf.Rows())
    asked = 'SELECT x + 0 AS "count", COUNT(*) + 0 AS n FROM t GROUP BY x ORDER BY COUNT(*)'
    assert table.query(asked, epsilon=10).table["count"].to_pylist() == [1, 0, 2]


@pytest.mark.parametrize("rows", [0, 1])
@pytest.mark.parametrize("kind", KINDS_OF_ROWS)
def test_F_publications_of_nothing(kind: str, rows: int, duckdb_engine: Open) -> None:
    """Without rows, and with none but missing values, every kind publishes."""
    columns = tuple(sf.Column(one, sf.Kind.INTEGER, domain=sf.Bounds(0, 7)) for one in "ab")
    table = pa.table({one: pa.array([None] * rows, pa.int64()) for one in "ab"})
    private = protected(duckdb_engine(table), columns, sf.Rows())
    planar = kind in ("quadtree", "adaptive-grid", "hybrid", "kdtree")
    watched: dict[str, Any] = {"workload": [[(0, 3)]], "threshold": 9} if kind == "above" else {}
    names = ["a", "b"] if planar else ["a"]
    published = private.publish(kind, columns=names, epsilon=1, **watched)
    assert published.tables


FIGURES = {"continual": "running", "quantiles": "rank"}


@pytest.mark.parametrize(
    "kind",
    ["histogram", "sparse", "fourier", "marginals", "continual", "dawa", "mwem", "quantiles"],
)
def test_F_publications_of_a_column_called_like_its_figure(kind: str, duckdb_engine: Open) -> None:
    name = FIGURES.get(kind, "count")
    columns = (sf.Column(name, sf.Kind.INTEGER, domain=sf.Bounds(0, 7), nullable=False),)
    private = protected(duckdb_engine(pa.table({name: [3] * 100})), columns, sf.Rows())
    published = private.publish(kind, columns=[name], epsilon=5)
    (table,) = published.tables.values()
    assert sorted(table.column_names) == [name, f"{name}_2"]
    assert table[name].to_pylist().count(3) >= 1
    if kind not in ("quantiles", "marginals"):
        assert published.ranges([[[3, 3]]])[0] == pytest.approx(100, abs=60)
