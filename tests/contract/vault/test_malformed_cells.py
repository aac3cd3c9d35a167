"""A cell that is not of its kind is told by nothing: to whoever asks it is one that is missing."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fixtures.ledgers import code_of
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

TINY = "0.000000001"
DOMAINS = {
    "integer": "bounds = [0, 5]",
    "real": "bounds = [0.0, 5.0]\nstep = 1.0",
    "date": "bounds = [2020-01-01, 2020-01-05]",
    "boolean": "",
    "text": 'values = ["a", "b"]',
}
SCHEMA = """\
table = "t"
unit = {{ column = "p", max_rows = 2, max_groups = 2 }}
[columns.p]
kind = "{person}"
nullable = false
[columns.x]
kind = "{kind}"
{domain}
[columns.y]
kind = "{kind}"
{domain}
nullable = false
"""


@dataclass(frozen=True)
class Held:
    """Cells of one physical type under a declared kind: a good one, and some that are not."""

    kind: str
    type: Any
    """An Arrow type; None is the text of a CSV."""
    good: Any
    bad: tuple[Any, ...]


DAY = 18263 * 86_400
"""2020-01-02, in seconds."""
FAR = 2**63 - 1
BEYOND = (3_663_477, -735_603)
"""In the year 12000 and before Christ, in days: engines know them, Python does not."""
TEXTS = (
    Held("integer", None, "1", ("abc", "1.5", "9" * 20, "0x1", " 1", "1e3")),
    Held("real", None, "1.5", ("abc", "1e400", "-1e400", "1_5", "Infinity")),
    Held("date", None, "2020-01-02", ("2020-13-45", "2020-02-30", "12020-01-01", "0000-01-01")),
    Held("boolean", None, "true", ("maybe", "1", "")),
    Held("text", None, "a", ("zz", "")),
)
TYPED = (
    *(Held(one.kind, pa.string(), one.good, one.bad) for one in TEXTS if one.kind != "text"),
    Held("integer", pa.uint64(), 1, (2**64 - 1, None)),
    Held("integer", pa.float64(), 1.0, (1.5, 1e300, float("nan"), float("-inf"), 2.0**63)),
    Held("real", pa.int64(), 1, (2**63 - 1, 2**53 + 1)),
    Held("real", pa.float64(), 1.0, (float("nan"), float("inf"), -1e308)),
    Held("date", pa.date32(), DAY // 86_400, (2**31 - 1, *BEYOND)),
    Held("date", pa.timestamp("us"), DAY * 10**6, (DAY * 10**6 + 1, FAR, -FAR)),
    Held("date", pa.timestamp("ns"), DAY * 10**9, (DAY * 10**9 + 1, FAR, -FAR)),
    Held("date", pa.timestamp("ms"), DAY * 10**3, (DAY * 10**3 + 1, FAR, -FAR)),
)
CASES = [
    *(pytest.param("csv", one, id=f"csv-{one.kind}") for one in TEXTS),
    *(
        pytest.param(
            form,
            one,
            id=f"{form}-{one.kind}-{one.type}",
            # What is read of one is read of the other: by turns in one of them, all in `slow`.
            # Texts are those of CSV files.
            marks=pytest.mark.slow if place % 2 == turn or one.type == pa.string() else [],
        )
        for turn, form in enumerate(("parquet", "duckdb"))
        for place, one in enumerate(TYPED)
    ),
]
DATE64 = Held("date", pa.date64(), DAY * 1000, (FAR, -FAR, BEYOND[0] * 86_400_000))
SOURCES = {"csv": "t.csv", "parquet": "t.parquet", "duckdb": "duckdb:///t.duckdb#t"}


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def declare(kind: str, person: str = "text") -> None:
    Path("t.toml").write_text(SCHEMA.format(kind=kind, domain=DOMAINS[kind], person=person))


def table(held: Held, cell: Any, rows: int = 9) -> pa.Table:
    """Some people with good cells, and one with a cell that may be bad."""
    kind = held.type or pa.string()
    cells = pa.array([held.good] * rows + [cell], kind)
    return pa.table({"p": [f"p{place}" for place in range(rows + 1)], "x": cells, "y": cells})


def write(form: str, rows: pa.Table) -> None:
    """Put a file in the place of the last one."""
    if form == "csv":
        lines = [
            ",".join("" if one is None else one for one in row.values()) for row in rows.to_pylist()
        ]
        Path("new").write_text("\n".join([",".join(rows.column_names), *lines]) + "\n")
    elif form == "parquet":
        pq.write_table(rows, "new")
    else:
        with closing(duckdb.connect("new")) as connection:
            connection.register("given", rows)
            connection.execute("CREATE TABLE t AS SELECT * FROM given")
    Path("new").replace(SOURCES[form].removeprefix("duckdb:///").removesuffix("#t"))


def outcome(private: Any, number: int) -> str:
    """All that a question and a publication tell besides noisy figures, or how they fail."""
    asked = (
        "SELECT x, y, COUNT(*) AS n, COUNT(x) AS a, COUNT(y) AS b, COUNT(DISTINCT y) AS d FROM t "
        f"WHERE p <> 'q{number}' GROUP BY x, y ORDER BY x, y"
    )
    try:
        answer = private.query(asked, epsilon=TINY)
        made = private.publish("histogram", columns=["x", "y"], epsilon=f"{number + 1}e-9")
    except SfumatoError as error:
        return f"{error.code}: {error.message}"
    keys = [one.table.select(["x", "y"]).to_pydict() for one in (answer, made)]
    assert answer.error is not None
    for bars in answer.error.values():
        bars.pop("too_noisy", None)  # which figures are small follows from the figures
        bars.pop("less_noise", None)
    return str((answer.table.schema, answer.error, made.table.schema, keys))


@pytest.mark.parametrize(("form", "held"), CASES)
def test_one_cell_decides_nothing_in_a_vault(form: str, held: Held) -> None:
    declare(held.kind)
    write(form, table(held, held.good))
    create(Path("vault"))
    Registration(
        name="t", source=SOURCES[form], schema=Path("t.toml"), epsilon=1, delta="1e-6"
    ).add_to(Path("vault"))
    with sf.open("vault") as vault:
        private = vault.private("t")
        expected = outcome(private, 0)
        assert expected.startswith("(")
        for number, cell in enumerate(held.bad, start=1):
            write(form, table(held, cell))
            assert outcome(private, number) == expected


@pytest.mark.parametrize(
    "held", few_fast([*TYPED, DATE64], 5), ids=lambda held: f"{held.kind}-{held.type}"
)
def test_one_cell_decides_nothing_in_a_protected_table(held: Held) -> None:
    declare(held.kind)
    told = []
    for cell in (held.good, *held.bad):
        with closing(sf.read(table(held, cell), "t.toml", strict=False)) as opened:
            told.append(outcome(sf.protect(opened, epsilon=1, delta="1e-6"), 0))
    assert told[0].startswith("(")
    assert set(told) == {told[0]}


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()], ids=str)
def test_nan_is_missing_though_a_parquet_file_tells_least_and_greatest(kind: Any) -> None:
    declare("real")
    cells = pa.array([2.0] * 9 + [float("nan")], kind)
    people = [f"p{place}" for place in range(10)]
    pq.write_table(pa.table({"p": people, "x": cells, "y": cells}), "t.parquet")
    with closing(sf.read("t.parquet", "t.toml", strict=False)) as opened:
        private = sf.protect(opened, epsilon=10**5, max_epsilon=10**5)
        asked = "SELECT COUNT(x) AS a, SUM(x) AS s, AVG(x) AS m, SUM(y) AS z FROM t"
        (row,) = private.query(asked, epsilon=5000).table.to_pylist()
        assert row == pytest.approx({"a": 9, "s": 18, "m": 2, "z": 18}, abs=0.3)
        made = private.publish("histogram", columns="x", epsilon=5000)
    assert [one for one in made.table["count"].to_pylist() if one] == [9, 1]
    assert made.table["count"].to_pylist()[-1] == 1  # NaN is behind all others


def test_a_malformed_cell_is_missing_or_the_lowest_value() -> None:
    declare("integer")
    Path("t.csv").write_text("p,x,y\n" + "".join(f"p{one},5,5\n" for one in range(9)) + "v,a,a\n")
    with closing(sf.read("t.csv", "t.toml", strict=False)) as opened:
        private = sf.protect(opened, epsilon=10**5, max_epsilon=10**5)
        asked = (
            "SELECT COUNT(*) AS n, COUNT(x) AS a, COUNT(y) AS b, SUM(y) AS s, "
            "COUNT_IF(y < 3) AS low FROM t"
        )
        (row,) = private.query(asked, epsilon=5000).table.to_pylist()
        assert row == {"n": 10, "a": 9, "b": 10, "s": 45, "low": 1}
        keyed = private.query("SELECT y, COUNT(*) AS n FROM t GROUP BY y", epsilon=5000)
        assert keyed.table["n"].to_pylist() == [1, 0, 0, 0, 0, 9]


def test_who_cannot_be_told_is_left_out() -> None:
    declare("integer", person="integer")
    good = "p,x,y\n" + "".join(f"{one},5,5\n" for one in range(9))
    Path("t.csv").write_text(good + "nobody,5,5\n")
    with closing(sf.read("t.csv", "t.toml", strict=False)) as opened:
        private = sf.protect(opened, epsilon=10**5, max_epsilon=10**5)
        answer = private.query("SELECT COUNT(*) AS n FROM t", epsilon=5000)
        made = private.publish("histogram", columns="y", epsilon=5000)
    assert answer.table["n"].to_pylist() == [9]
    assert sum(made.table["count"].to_pylist()) == 9


def test_the_owner_is_told_the_place() -> None:
    declare("integer")
    Path("t.csv").write_text("p,x,y\na,1,1\nb,zz,2\n")
    create(Path("vault"))
    added = Registration(name="t", source="t.csv", schema=Path("t.toml"), epsilon=1)
    assert code_of(added.add_to, Path("vault")) == "cell_malformed"
    with pytest.raises(SfumatoError, match="Column 'x', data row 2,"):
        sf.read("t.csv", "t.toml")
