"""Tables as people write them, from the file to the release and back."""

from __future__ import annotations

import csv
import datetime as dt
import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato as sf
from sfumato.anonymize.measure import bound, measure
from sfumato.anonymize.pipeline import anonymize
from sfumato.data.engines.base import everything
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.hierarchy import Tree
from sfumato.data.schema.schema_file import load
from sfumato.data.schema.spelling import DateSpelling, NumberSpelling
from sfumato.errors import SchemaError
from sfumato.release.open_table import check_columns, read, save_schema
from sfumato.release.release import Release

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = """\
table = "people"
[columns.born]
role = "quasi"
kind = "date"
format = "%d.%m.%Y"
bounds = [1976-01-01, 1980-12-31]
hierarchy = { dates = ["month", "year"] }
[columns.size]
role = "quasi"
kind = "real"
decimal = ","
places = 2
bounds = [1.0, 2.5]
step = 0.01
hierarchy = { widths = [0.1, 0.5] }
[columns.points]
role = "quasi"
kind = "integer"
thousands = "."
bounds = [0, 20000]
hierarchy = { widths = [500, 1000] }
[columns.pay]
role = "sensitive"
kind = "real"
decimal = ","
thousands = "."
currency = "€"
places = 2
bounds = [-5000.0, 9000.0]
step = 0.5
[columns.seen]
kind = "date"
format = "%d.%m.%Y %H:%M"
"""
ROWS = [
    ("24.12.1976", "1,83", "1.591", "1.591,10 €", "03.06.2024 01:52"),
    ("24.12.1976", "1,83", "1.591", "-980,00 €", "03.06.2024 23:52"),
    ("24.12.1976", "1,70", "1.520", "", "29.02.2024 00:00"),
    ("02.01.1977", "1,70", "1.520", "7,50 €", ""),
    ("02.01.1977", "1,51", "12.999", "8,25 €", "01.01.2024 12:00"),
    ("29.02.1980", "1,51", "12.999", "9,00 €", "01.01.2024 12:00"),
]
ALGORITHMS: list[tuple[str, dict[str, Any]]] = [
    ("optimal", {}),
    ("datafly", {}),
    ("mondrian", {}),
    ("k-optimize", {}),
    ("aggarwal-suppress", {}),
    ("permute", {"sensitive": ("pay",)}),
    ("perturb", {"sensitive": ("pay",)}),
]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    (tmp_path / "people.toml").write_text(SCHEMA)
    lines = ["born;size;points;pay;seen", *(";".join(row) for row in ROWS)]
    (tmp_path / "people.csv").write_text("\n".join(lines) + "\n")
    return tmp_path / "people.csv"


def released(table: Path, name: str, k: int = 2, **options: Any) -> Path:
    criteria = [] if options.get("algorithm") == "perturb" else [sf.KAnonymity(k)]
    out = table.with_name(name)
    with closing(read(table, table.with_name("people.toml"))) as people:
        anonymize(people, criteria, **options).write(out)
    return out


def cells(path: Path, name: str) -> list[str]:
    with path.open(newline="") as stream:
        return sorted(row[name] for row in csv.DictReader(stream, delimiter=";"))


@pytest.mark.parametrize(("algorithm", "options"), ALGORITHMS)
def test_a_release_is_read_by_the_schema_that_it_was_made_with(
    table: Path, algorithm: str, options: dict[str, Any]
) -> None:
    out = released(table, "out.csv", algorithm=algorithm, **options)
    schema = table.with_name("people.toml")
    # Numbers that were blurred are not in the original.
    found = measure(out, schema, original=None if algorithm == "perturb" else table)
    assert found.cost["loss"] is not None
    assert found.k >= (2 if algorithm not in ("permute", "perturb") else 1)
    if algorithm != "perturb":
        count = bound(out, "SELECT COUNT(*) FROM people WHERE born < '1978-01-01'", schema)
        assert (count.lower or 0) <= 5 <= (count.upper or 0)
        total = bound(out, "SELECT SUM(points) FROM people", schema)
        assert (total.lower or 0) <= 2 * (1591 + 1520 + 12999) <= (total.upper or 0)
    with closing(read(out, schema)) as again:
        assert again.schema.column("pay").kind is Kind.REAL


def test_single_values_are_written_as_they_were(table: Path) -> None:
    out = released(table, "out.csv", k=1)
    for place, name in enumerate(("born", "size", "points", "pay")):
        assert cells(out, name) == sorted(row[place] for row in ROWS)
    # Of a time only the day is known.
    assert cells(out, "seen") == sorted(row[4][:10] for row in ROWS)


def test_ranges_have_their_ends_written_so_and_stretches_have_their_names(table: Path) -> None:
    found = {*cells(released(table, "m.csv", k=3, algorithm="mondrian"), "points")}
    assert found == {"[1.520; 1.591]", "[1.520; 12.999]"}
    # However many decimals a range has inside, its ends have those of the column's cells.
    assert {*cells(table.with_name("m.csv"), "size")} == {"[1,51; 1,70]", "[1,70; 1,83]"}
    assert {*cells(released(table, "w.csv", k=6, algorithm="datafly"), "size")} == {"[1,50; 2,00)"}
    labels = cells(released(table, "o.csv", k=3), "born")
    assert set(labels) <= {"1976-12", "1976", "1977", "1977-01", "1980", "1980-02", "*"}


def test_plain_reals_keep_the_decimals_that_all_of_them_have(tmp_path: Path) -> None:
    rows = [f"{n % 3}.50,{n % 5}.{n % 2},{n}.{n:013}" for n in range(10)]
    source = tmp_path / "people.csv"
    source.write_text("\n".join(["weight,dose,long", *rows]) + "\n")
    with closing(read(source)) as people:
        written = [column.spelling and column.spelling.keys for column in people.schema.columns]
        assert written == [{"places": 2}, {"places": 1}, None]  # more than 12 cannot be declared
        save_schema(people, tmp_path / "people.toml")
    text = (
        (tmp_path / "people.toml")
        .read_text()
        .replace('role = "other"', 'role = "quasi"\nhierarchy = { widths = [5.0] }', 1)
    )
    (tmp_path / "people.toml").write_text(text)
    with closing(read(source, tmp_path / "people.toml")) as people:
        anonymize(people, [sf.KAnonymity(3)]).write(tmp_path / "out.csv")
        anonymize(people, [sf.KAnonymity(5)], algorithm="mondrian").write(tmp_path / "m.csv")
    lines = (tmp_path / "out.csv").read_text().splitlines()[1:]
    assert sorted(line.split(",")[:2] for line in lines) == sorted(r.split(",")[:2] for r in rows)
    assert '"[0.50, 2.50]"' in (tmp_path / "m.csv").read_text()
    measured = measure(tmp_path / "m.csv", tmp_path / "people.toml", original=source)
    assert measured.k >= 5


@pytest.mark.parametrize("algorithm", ["mondrian", "datafly"])
def test_ends_of_ranges_are_read_with_any_number_of_zeros(table: Path, algorithm: str) -> None:
    out, schema = released(table, "a.csv", k=3, algorithm=algorithm), table.with_name("people.toml")
    shorter = table.with_name("b.csv")
    text = re.sub(r"(,[0-9]*?)0+(?=[;)\]])", r"\1", out.read_text()).replace(",;", ",0;")
    text = re.sub(r",(?=[)\]])", ",0", text)
    assert text != out.read_text()
    shorter.write_text(text)
    full, bare = (measure(path, schema, original=table) for path in (out, shorter))
    assert full.cost == bare.cost
    assert full.cost["loss"]


def test_a_saved_release_is_loaded_with_its_types(table: Path) -> None:
    with closing(read(table, table.with_name("people.toml"))) as people:
        release = people.anonymize(sf.KAnonymity(2))
    release.save(table.with_name("saved.csv"))
    assert "1.591,10 €" in table.with_name("saved.csv").read_text()
    loaded = Release.load(table.with_name("saved.csv"))
    assert loaded.table.equals(release.table)
    assert loaded.table["pay"].type == pa.float64()
    loaded.save(table.with_name("again.csv"))
    assert table.with_name("again.csv").read_bytes() == table.with_name("saved.csv").read_bytes()


def test_a_side_car_with_a_spelling_that_is_none_is_refused(table: Path) -> None:
    out = released(table, "out.csv")
    side = out.with_name("out.csv.json")
    told = json.loads(side.read_text())
    assert told["tables"][0]["written"]["seen"] == {"format": "%d.%m.%Y %H:%M"}
    told["tables"][0]["written"]["seen"] = {"format": "nonsense"}
    side.write_text(json.dumps(told))
    with pytest.raises(sf.SfumatoError) as caught:
        Release.load(out)
    assert caught.value.code == "release_unreadable"


def test_parquet_keeps_types(table: Path) -> None:
    out = released(table, "out.parquet")
    rows = parquet.read_table(out)
    assert rows.schema.field("pay").type == pa.float64()
    assert rows.schema.field("seen").type == pa.date32()
    assert measure(out, table.with_name("people.toml"), original=table).k >= 2


def test_anatomy_writes_both_tables_so(table: Path) -> None:
    out = table.with_name("parts")
    with closing(read(table, table.with_name("people.toml"))) as people:
        anonymize(people, [sf.DistinctDiversity(2, of="pay")], algorithm="anatomy").write(out)
    assert "24.12.1976" in (out / "quasi.csv").read_text()
    assert "1.591,10 €" in (out / "sensitive.csv").read_text()
    assert measure(out, table.with_name("people.toml")).sensitive["pay"]["distinct"] == 2


def test_the_original_itself_is_measured_as_it_is_written(table: Path) -> None:
    found = measure(table, table.with_name("people.toml"))
    assert (found.k, found.classes) == (1, 5)


def test_a_label_that_reads_like_a_value_is_refused(table: Path) -> None:
    hierarchy = (
        'hierarchy = { tree = { "1,0" = [1.83, 1.70, 1.51], other = [2.0] } }\n[columns.points]'
    )
    text = SCHEMA.replace("hierarchy = { widths = [0.1, 0.5] }\n[columns.points]", hierarchy)
    text = text.replace("bounds = [1.0, 2.5]\nstep = 0.01\n", "")
    table.with_name("people.toml").write_text(text)
    with pytest.raises(SchemaError) as caught:
        released(table, "out.csv", k=3)
    assert caught.value.code == "cell_malformed"


def test_text_in_a_database_is_refused_with_what_to_do() -> None:
    column = Column("born", Kind.DATE, spelling=DateSpelling("%d.%m.%Y"))

    class Server:
        table = None

        def columns(self, _: object) -> dict[str, Kind]:
            return {"born": Kind.TEXT}

    schema = sf.Schema("people", (column,))
    with pytest.raises(SchemaError, match="Cast it to date in a view") as caught:
        check_columns(Server(), schema)  # type: ignore[arg-type]  # all that is asked of an engine
    assert caught.value.code == "option_not_applicable"


def test_a_tree_of_days_is_released_so(table: Path) -> None:
    days = (dt.date(1976, 12, 24), dt.date(1977, 1, 2), dt.date(1980, 2, 29))
    tree = Tree(days, (("old", "*"), ("old", "*"), ("new", "*")))
    known = load(table.with_name("people.toml"))
    born = Column("born", Kind.DATE, sf.Role.QUASI, None, tree, spelling=DateSpelling("%d.%m.%Y"))
    with closing(read(table, sf.Schema("people", (born, known.column("pay"))))) as people:
        labels = people.anonymize(sf.KAnonymity(1)).table["born"].to_pylist()
    assert set(labels) == {"24.12.1976", "02.01.1977", "29.02.1980"}


def test_nothing_is_recognised_where_a_schema_speaks(table: Path) -> None:
    schema = sf.Schema("people", (Column("born", Kind.DATE), Column("pay", Kind.REAL)))
    with pytest.raises(sf.SfumatoError) as caught:
        read(table, schema)
    assert caught.value.code == "cell_malformed"
    with closing(read(table, schema, strict=False)) as people:
        held = people.engine.run(everything(people.engine.table))
    assert held["born"].null_count == held["pay"].null_count == len(ROWS)


def test_a_vault_reads_what_is_declared_and_nothing_else(table: Path) -> None:
    """Cells that do not fit are missing, whatever the others look like."""
    rows = table.read_text().replace("29.02.1980", "1980-02-29")
    table.write_text(rows)
    born = Column("born", Kind.DATE, spelling=DateSpelling("%d.%m.%Y"))
    pay = Column("pay", Kind.REAL, spelling=NumberSpelling(",", ".", None, "# €"))
    with closing(read(table, sf.Schema("people", (born, pay)), strict=False)) as people:
        held = people.engine.run(everything(people.engine.table))
    assert held["born"].to_pylist()[-1] is None
    assert held["pay"].to_pylist() == [1591.1, -980.0, None, 7.5, 8.25, 9.0]
