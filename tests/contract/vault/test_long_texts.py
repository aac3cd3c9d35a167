"""A private text is cut where it is read, on every engine, so that no text decides about memory.

F20: 280 rows of 8 MB by one person filled the memory of DuckDB, after the charge. What one person
can cost follows from the schema: a declared `length`, the longest declared value, or 1,000.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlglot import exp
from tests.fixtures.ledgers import code_of
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.data.engines import sources
from sfumato.data.engines.base import everything
from sfumato.data.engines.malformed_cells import limited
from sfumato.data.engines.sources import open_source
from sfumato.data.schema.unit import Entity, Rows
from sfumato.methods.method import text_limits
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.data.engines.base import Engine

    Open = Callable[[pa.Table], Engine]

COLUMNS = (
    sf.Column("who", sf.Kind.TEXT, nullable=False),
    sf.Column("free", sf.Kind.TEXT, length=3),
    sf.Column("listed", sf.Kind.TEXT, domain=sf.Values(("ab", "abcd"))),
    sf.Column("usual", sf.Kind.TEXT),
    sf.Column("n", sf.Kind.INTEGER, domain=sf.Bounds(0, 9)),
)
TEXTS = [
    None,
    "",
    "a",
    "abc",
    "abcd",
    "äöüß",
    "e\u0301e\u0301",
    "👩‍👩‍👧‍👦x",
    "x" * 5000,
    "日本語の文字",
]


def test_texts_are_cut_by_characters_on_every_engine(open_engine: Open) -> None:
    table = pa.table(
        {
            "who": pa.array([f"p{at}" for at in range(len(TEXTS))]),
            **{name: pa.array(TEXTS, pa.string()) for name in ("free", "listed", "usual")},
            "n": pa.array(range(len(TEXTS)), pa.int64()),
            "undeclared": pa.array(TEXTS, pa.string()),
        }
    )
    engine = open_engine(table)
    seen = limited(engine.table, text_limits(COLUMNS, Entity("who", 2)))
    found = engine.run(everything(seen).order_by(exp.column("n"))).to_pydict()
    assert list(found) == [column.name for column in COLUMNS]
    for name, characters in {"free": 3, "listed": 5, "usual": 1000}.items():
        assert found[name] == [text and text[:characters] for text in TEXTS]
    assert [text for text in found["listed"] if text in ("ab", "abcd")] == ["abcd"]


def test_two_long_names_never_become_one_person(open_engine: Open) -> None:
    """Cut, both would be one: with one of them gone, the other's rows would move too."""
    names = ["x" * 1000, "x" * 1000 + "1", "x" * 1000 + "2", "y"]
    engine = open_engine(pa.table({"who": names, "free": ["a"] * 4}))
    seen = limited(engine.table, text_limits(COLUMNS[:2], Entity("who", 2)))
    found = engine.run(everything(seen))["who"].to_pylist()
    assert sorted(map(str, found)) == ["None", "None", "x" * 1000, "y"]


def test_names_are_read_up_to_the_usual_length_whatever_is_declared() -> None:
    who = sf.Column("who", sf.Kind.TEXT, nullable=False, length=2)
    assert text_limits([who], Entity("who", 1))["who"].characters == 1000  # type: ignore[union-attr]
    assert text_limits([who], Rows())["who"].characters == 2  # type: ignore[union-attr]


SCHEMA = """\
table = "t"
unit = { column = "p", max_rows = 2, max_groups = 2 }
[columns.p]
kind = "text"
nullable = false
[columns.c]
kind = "text"
[columns.k]
kind = "text"
values = ["a", "b"]
[columns.n]
kind = "integer"
bounds = [0, 9]
"""
ROWS, LONG = 96, 1 << 21


def write(form: str, texts: list[str], names: list[str] | None = None) -> str:
    """A file of ordinary people and one with these texts."""
    many = len(texts)
    table = pa.table(
        {
            "p": ["1", "2", *(names or ["x"] * many)],
            "c": ["u", "u", *texts],
            "k": ["a", "b", *texts],
            "n": pa.array([1] * (many + 2), pa.int64()),
        }
    )
    if form == "parquet":
        pq.write_table(table, "t.parquet", compression="zstd")
    else:
        rows = zip(*(table[name].to_pylist() for name in "pckn"), strict=True)
        lines = (",".join(map(str, row)) for row in [("p", "c", "k", "n"), *rows])
        Path("t.csv").write_text("\n".join(lines) + "\n")
    return f"t.{form}"


def told(private: Any, number: int) -> str:
    """All that methods of every family tell but for figures, or how they fail."""
    tiny = {"epsilon": f"{number + 1}e-9"}
    made: list[Any] = []
    asked: list[Callable[[], Any]] = [
        lambda: private.query("SELECT k, COUNT(*) AS n FROM t GROUP BY k", **tiny),
        lambda: private.query("SELECT COUNT_IF(c = 'u') AS n, AVG(LENGTH(c)) AS m FROM t", **tiny),
        lambda: private.publish("histogram", columns=["k"], **tiny),
        lambda: private.synthesize(columns=["k", "n"], rows=3, method="independent", **tiny),
        lambda: private.synthesize(columns=["c", "n"], rows=3, delta="1e-9", **tiny),
        lambda: private.learn("naive-bayes", target="k", features=["n"], **tiny),
    ]
    for ask in asked:
        try:
            answer: Any = ask()
            made.append(answer.table.schema if hasattr(answer, "table") else type(answer))
        except sf.SfumatoError as error:
            made.append(f"{error.code}: {error.message}")
    return str(made)


@pytest.mark.parametrize("form", few_fast(["parquet", "csv"], 1))
def test_F20_megabytes_of_text_of_one_person_decide_nothing(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """200 MB of text in one person's rows, and an engine that may hold 100 MB."""
    monkeypatch.chdir(tmp_path)
    assert sources.open_source.__kwdefaults__ is not None
    monkeypatch.setitem(sources.open_source.__kwdefaults__, "memory_limit", "100MB")
    Path("t.toml").write_text(SCHEMA)
    source = write(form, ["v"])
    create(Path("vault"))
    added = Registration(name="t", source=source, schema=Path("t.toml"), epsilon=1, delta="1e-6")
    added.add_to(Path("vault"))
    with sf.open("vault") as vault:
        expected = told(vault.private("t"), 0)
        assert "_wrong" not in expected
        assert "_failed" not in expected
        long = [f"{at:08d}" * (LONG // 8) for at in range(ROWS)]
        write(form, long, [text[: LONG // 2] for text in long])
        assert told(vault.private("t"), 1) == expected


def test_what_is_anonymized_is_never_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.toml").write_text(SCHEMA)
    source = write("parquet", ["z" * 3000])
    create(Path("vault"))
    Registration(name="t", source=source, schema=Path("t.toml"), epsilon=1).add_to(Path("vault"))
    with (
        sf.open("vault") as vault,
        vault.private("t").owners_rows() as rows,
        closing(open_source(source)) as as_it_is,
    ):
        assert rows.engine.run(everything(rows.table)) == as_it_is.run(everything(as_it_is.table))


def test_a_frame_of_more_text_than_arrow_can_address_is_read() -> None:
    """One dictionary value of 1 MB in 3,000 rows would be 3 GB written out."""
    codes = pa.array([0] * 3000, pa.int32())
    texts = pa.DictionaryArray.from_arrays(codes, pa.array(["x" * (1 << 20)], pa.large_string()))
    kinds = {"c": sf.Column("c", sf.Kind.TEXT)}
    table = pa.table({"c": texts})
    with closing(open_source(table, kinds=kinds, strict=False, short_texts=True)) as engine:
        longest = exp.select(exp.Max(this=exp.Length(this=exp.column("c"))).as_("n"))
        assert engine.run(longest.from_(engine.table))["n"].to_pylist() == [1001]
    assert code_of(open_source, "missing.parquet") == "source_missing"


def test_a_cell_that_is_not_utf8_leaves_no_other_text_long(tmp_path: Path) -> None:
    """One such cell makes bytes of its column; the texts of others are cut all the same."""
    cells = pa.array([b"\xff", b"x" * 5000, "ä".encode() * 5000], pa.binary())
    pq.write_table(pa.table({"c": cells.view(pa.string())}), tmp_path / "t.parquet")
    opened = open_source(
        tmp_path / "t.parquet",
        kinds={"c": sf.Column("c", sf.Kind.TEXT)},
        strict=False,
        short_texts=True,
    )
    with closing(opened) as engine:
        read = engine.run(everything(engine.table))["c"].to_pylist()
    assert read == [None, "x" * 1001, "ä" * 1001]
