"""The contract of engines as a test suite: subclass it and give it an `engine` fixture.

::

    class TestMine(EngineContract):
        @pytest.fixture(scope="class")
        @classmethod
        def engine(cls): ...
"""

from __future__ import annotations

import datetime as dt
import hashlib
import math
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from sqlglot import exp, parse_one

from sfumato.data.engines.base import everything
from sfumato.data.schema.column import Kind
from sfumato.errors import EngineError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.data.engines.base import Engine

CANARY = "canary-4711"
"""A value that must never be seen outside a detail."""


def query(sql: str, **tables: exp.Table) -> exp.Query:
    """Parse SQL in the neutral dialect, with table names replaced by lent tables."""
    tree = parse_one(sql)
    assert isinstance(tree, exp.Query)
    for table in list(tree.find_all(exp.Table)):
        if table.name in tables:
            lent = tables[table.name].copy()
            lent.set("alias", exp.TableAlias(this=exp.to_identifier(table.alias_or_name)))
            table.replace(lent)
    return tree


def rows(engine: Engine, sql: str, **tables: exp.Table) -> list[tuple[object, ...]]:
    """Run SQL in the neutral dialect and return the rows."""
    table = engine.run(query(sql, **tables))
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


PEOPLE = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "name": pa.array(["Ada", 'Émile, "the"', None, ""], pa.string()),
        "weight": pa.array([1.5, math.nan, None, -0.0], pa.float64()),
        "born": pa.array(
            [
                dt.date(1815, 12, 10),
                None,
                dt.date(1, 1, 1),
                dt.date(9999, 12, 31),
            ],
            pa.date32(),
        ),
        "alive": pa.array([True, False, None, True], pa.bool_()),
    }
)

KINDS = {
    "id": Kind.INTEGER,
    "name": Kind.TEXT,
    "weight": Kind.REAL,
    "born": Kind.DATE,
    "alive": Kind.BOOLEAN,
}


class EngineContract:
    """The tests that every engine must pass."""

    def test_kinds_of_all_types(self, engine: Engine) -> None:
        """Columns are named in order, with their kinds."""
        with engine.lend(PEOPLE) as people:
            assert list(engine.columns(people).items()) == list(KINDS.items())

    def test_values_come_back_as_they_were(self, engine: Engine) -> None:
        """NULL, NaN, empty text, first and last dates survive."""
        with engine.lend(PEOPLE) as people:
            result = rows(engine, "SELECT * FROM people ORDER BY id", people=people)
        expected = list(zip(*(column.to_pylist() for column in PEOPLE.columns), strict=True))
        assert repr(result) == repr(expected)  # NaN is not equal to itself, its text is

    def test_null_and_nan_are_groups_and_zero_has_no_sign(self, engine: Engine) -> None:
        """NULL, NaN and zero are one group each."""
        values = pa.table({"x": pa.array([None, None, math.nan, -math.nan, 0.0, -0.0, 1.0])})
        with engine.lend(values) as lent:
            result = rows(engine, "SELECT x, COUNT(*) AS n FROM t GROUP BY x", t=lent)
        counts = {("nan" if x is not None and x != x else x): n for x, n in result}
        assert counts == {None: 2, "nan": 2, 0.0: 2, 1.0: 1}

    def test_integers_are_exact(self, engine: Engine) -> None:
        """Integers beyond the floats are counted and summed exactly."""
        big = pa.table({"x": pa.array([2**53, 1, 1, 2**62, -(2**63), 2**63 - 1], pa.int64())})
        with engine.lend(big) as lent:
            top = rows(engine, "SELECT MAX(x) AS a, MIN(x) AS b FROM t", t=lent)
            sums = rows(
                engine,
                "SELECT CAST(SUM(x) AS BIGINT) AS s FROM t WHERE x < 100000000000000000 AND x > 0",
                t=lent,
            )
        assert top == [(2**63 - 1, -(2**63))]
        assert sums == [(2**53 + 2,)]

    def test_sum_beyond_64_bits_fails(self, engine: Engine) -> None:
        """A sum never wraps around and never becomes a float."""
        # A sum that wraps around would turn a bounded contribution into an unbounded one.
        big = pa.table({"x": pa.array([2**63 - 1, 2**63 - 1], pa.int64())})
        with engine.lend(big) as lent, pytest.raises(EngineError):
            rows(engine, "SELECT CAST(SUM(x) AS BIGINT) AS s FROM t", t=lent)

    def test_arithmetic(self, engine: Engine) -> None:
        """Div divides as reals, DIV as integers towards zero, and % has the sign of the left."""
        pairs = pa.table({"a": pa.array([7, -7], pa.int64()), "b": pa.array([2, 2], pa.int64())})
        with engine.lend(pairs) as lent:
            result = rows(
                engine,
                "SELECT a / b AS real, a DIV b AS whole, a % b AS rest FROM t ORDER BY a DESC",
                t=lent,
            )
        assert result == [(3.5, 3, 1), (-3.5, -3, -1)]

    def test_order(self, engine: Engine) -> None:
        """NULL comes first and NaN last."""
        values = pa.table({"x": pa.array([math.inf, 1.0, None, math.nan, -1.0])})
        with engine.lend(values) as lent:
            up = rows(engine, "SELECT x FROM t ORDER BY x", t=lent)
            down = rows(engine, "SELECT x FROM t ORDER BY x DESC", t=lent)
        assert repr(up) == "[(None,), (-1.0,), (1.0,), (inf,), (nan,)]"
        assert down == up[::-1] or repr(down) == repr(up[::-1])

    def test_text_is_exact(self, engine: Engine) -> None:
        """Case, accents, composed letters and trailing space all make a difference."""
        # The composed and the decomposed é look alike and are two values.
        texts = [
            "é",
            "e\u0301",
            "E",
            "e",
            "e ",
            "日本",
            "🎈",
            "ß",
            "ss",
            "'",
            '"',
            "\\",
            "%",
            "\t\n",
        ]
        with engine.lend(pa.table({"w": texts})) as lent:
            result = rows(engine, "SELECT w, COUNT(*) AS n FROM t GROUP BY w", t=lent)
        assert sorted(result) == sorted((text, 1) for text in texts)

    @pytest.mark.parametrize(
        "text", ["it's", "back\\slash\\n", '"quoted"', "; -- /* */", "$1 %s {}", "é🎈"]
    )
    def test_literals_are_literal(self, engine: Engine, text: str) -> None:
        """A text in a query is that text."""
        tree = exp.select(exp.Literal.string(text).as_("w"))
        assert engine.run(tree).to_pylist() == [{"w": text}]

    def test_odd_column_names(self, engine: Engine) -> None:
        """Column names with signs, keywords and blanks are names like any other."""
        names = [
            "select",
            'a"b',
            ";--",
            "sp ace",
            "Ä",
            "a`b",
            "back\\slash",
            "%s",
            "$1",
            "a.b",
            "1",
        ]
        table = pa.table({name: pa.array([number]) for number, name in enumerate(names)})
        with engine.lend(table) as lent:
            assert engine.run(everything(lent)).to_pylist() == table.to_pylist()
            single_column = exp.select(
                exp.Column(this=exp.to_identifier('a"b', quoted=True))
            ).from_(lent)
            assert engine.run(single_column).to_pylist() == [{'a"b': 1}]

    def test_lent_tables_join_and_go(self, engine: Engine) -> None:
        """Lent tables can be joined, several at a time, and are gone afterwards."""
        codes = pa.table({"id": pa.array([1, 2], pa.int64()), "code": ["x", "y"]})
        sql = "SELECT p.name, c.code FROM people AS p JOIN codes AS c ON p.id = c.id ORDER BY p.id"
        with engine.lend(PEOPLE) as people, engine.lend(codes) as lent:
            result = rows(engine, sql, people=people, codes=lent)
        assert result == [("Ada", "x"), ('Émile, "the"', "y")]
        with pytest.raises(SourceError) as refusal:
            engine.run(everything(lent))
        assert refusal.value.code == "table_missing"

    def test_empty_tables_keep_their_types(self, engine: Engine) -> None:
        """A table without rows still has its columns."""
        with engine.lend(PEOPLE.slice(0, 0)) as people:
            assert engine.columns(people) == KINDS
            assert engine.run(everything(people)).num_rows == 0
            assert engine.stream(everything(people)).read_all().schema.names == list(KINDS)
            assert rows(engine, "SELECT COUNT(*) AS n FROM people", people=people) == [(0,)]

    def test_stream_in_order_beside_other_queries(self, engine: Engine) -> None:
        """A stream gives the same rows in the same order, while other queries run."""
        table = pa.table({"x": pa.array(range(1000), pa.int64())})
        with engine.lend(table) as lent:
            seen: list[int] = []
            for batch in engine.stream(
                query("SELECT x FROM t ORDER BY x DESC", t=lent), batch_rows=300
            ):
                assert batch.num_rows <= 300
                assert rows(engine, "SELECT COUNT(*) AS n FROM t", t=lent) == [(1000,)]
                seen += batch.column(0).to_pylist()
        assert seen == list(range(999, -1, -1))

    def test_threads(self, engine: Engine) -> None:
        """Several threads may query at once."""
        with engine.lend(PEOPLE) as people, ThreadPoolExecutor(4) as threads:
            futures = [
                threads.submit(rows, engine, f"SELECT id + {n} AS s FROM t WHERE id = 1", t=people)
                for n in range(8)
            ]
            assert [future.result() for future in futures] == [[(1 + n,)] for n in range(8)]

    def test_bounding_query(self, engine: Engine) -> None:
        """The shape of a contribution bound gives the same rows everywhere."""
        visits = pa.table({"u": ["a", "a", "a", "b"], "v": pa.array([1, 2, 3, 4], pa.int64())})
        sql = (
            "WITH ranked AS (SELECT u, v, ROW_NUMBER() OVER (PARTITION BY u ORDER BY "
            "MD5(u || '/' || CAST(v AS VARCHAR)), v) AS r FROM t) "
            "SELECT u, v, CASE WHEN v IS NULL THEN 0 WHEN v > 2 THEN 2 ELSE v END AS c "
            "FROM ranked WHERE r <= 2 ORDER BY u, v"
        )
        with engine.lend(visits) as lent:
            result = rows(engine, sql, t=lent)
        bounded = sorted(range(1, 4), key=lambda v: hashlib.md5(f"a/{v}".encode()).hexdigest())[:2]
        assert result == [("a", v, min(v, 2)) for v in sorted(bounded)] + [("b", 4, 2)]

    @pytest.mark.parametrize("call", ["run", "stream", "write"])
    def test_errors_quote_no_data(
        self,
        engine: Engine,
        tmp_path: Path,
        capfd: pytest.CaptureFixture[str],
        caplog: pytest.LogCaptureFixture,
        call: str,
    ) -> None:
        """The engine's words about a cell are only in the detail of the error."""
        calls: dict[str, Callable[[exp.Query], object]] = {
            "run": engine.run,
            "stream": lambda tree: engine.stream(tree).read_all(),
            "write": lambda tree: engine.write(tree, tmp_path / "a.csv"),
        }
        with engine.lend(pa.table({"t": ["1", CANARY]})) as lent:
            tree = query("SELECT CAST(t AS BIGINT) AS n FROM t", t=lent)
            with pytest.raises(EngineError) as failure:
                calls[call](tree)
        error = failure.value
        assert CANARY in (error.detail or "")
        # A cause or context would print the engine's words in a traceback.
        assert error.__cause__ is None
        assert error.__context__ is None
        seen = (
            str(error),
            repr(error),
            str(error.args),
            "".join(traceback.format_exception(error)),
        )
        assert not any(CANARY in text for text in (*seen, caplog.text, *capfd.readouterr()))
        assert list(tmp_path.iterdir()) == []
