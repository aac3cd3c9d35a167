"""Files people have, through the doors: inspected, released, measured, put into a vault."""

from __future__ import annotations

import json
import random
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa
import pyreadstat
import pytest
import xlsxwriter  # type: ignore[import-untyped]  # ships no types
from pyarrow import parquet

import sfumato as sf
from sfumato.anonymize.pipeline import anonymize
from sfumato.cli.main import run
from sfumato.errors import SchemaError
from sfumato.release.open_table import read
from sfumato.release.release import Release
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SCHEMA = """
table = "leute"
unit = "row"
{file}
[columns."Größe"]
role = "quasi"
kind = "integer"
bounds = [150, 200]
hierarchy = {{ widths = [10, 50] }}
[columns.Ort]
role = "quasi"
kind = "text"
values = ["Köln", "Fürth"]
hierarchy = {{ mask = "right" }}
[columns.Leiden]
role = "sensitive"
kind = "text"
values = ["Grippe", "Migräne"]
"""
ROWS = [
    (
        random.Random(n).randrange(150, 200),
        ("Köln", "Fürth")[n % 2],
        ("Grippe", "Migräne")[n // 2 % 2],
    )
    for n in range(300)
]
NAMES = ("Größe", "Ort", "Leiden")


def as_text(path: Path, *, separator: str = ";", encoding: str = "cp1252") -> None:
    lines = [separator.join(map(str, row)) for row in (NAMES, *ROWS)]
    path.write_bytes("\r\n".join(lines).encode(encoding))


def as_excel(path: Path) -> None:
    book = xlsxwriter.Workbook(path)
    sheet = book.add_worksheet("Tabelle1")
    for number, row in enumerate((NAMES, *ROWS)):
        sheet.write_row(number, 0, row)
    book.close()


def as_spss(path: Path) -> None:
    frame = pd.DataFrame(ROWS, columns=list(NAMES))
    frame["Leiden"] = frame["Leiden"].map({"Grippe": 1.0, "Migräne": 2.0})
    labels: dict[str, dict[Any, str]] = {"Leiden": {1.0: "Grippe", 2.0: "Migräne"}}
    pyreadstat.write_sav(frame, path, variable_value_labels=labels)


FILES: dict[str, tuple[str, Callable[[Path], None], str]] = {
    "Windows-1252 with semicolons": (
        "leute.csv", as_text, '[file]\nencoding = "windows-1252"\nseparator = ";"',
    ),
    "a header that tells": ("leute.csv", as_text, 'file.encoding = "latin-1"'),
    "UTF-16 with tabs": (
        "leute.txt", lambda path: as_text(path, separator="\t", encoding="utf-16"), "",
    ),
    "tabs by name": ("leute.tsv", lambda path: as_text(path, separator="\t", encoding="utf-8"), ""),
    "Excel": ("leute.xlsx", as_excel, '[file]\nsheet = "Tabelle1"'),
    "SPSS": ("leute.sav", as_spss, ""),
}  # fmt: skip


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("case", FILES)
def test_a_vault_answers_from_any_file(home: Path, case: str) -> None:
    name, save, layout = FILES[case]
    save(home / name)
    (home / "s.toml").write_text(SCHEMA.format(file=layout))
    assert run(["init", "v"]) == 0
    assert run(["add", "leute", name, "--schema", "s.toml", "--epsilon", "9", "--vault", "v"]) == 0
    with open_vault(home / "v") as vault:
        asked = 'SELECT "Leiden", COUNT(*) AS n FROM leute GROUP BY "Leiden"'
        answer = vault.query(asked, epsilon=8)
        counts = {row["Leiden"]: row["n"] for row in answer.table.to_pylist()}
        assert counts["Grippe"] == pytest.approx(150, abs=10)
        assert counts["Migräne"] == pytest.approx(150, abs=10)


def test_a_copy_in_another_declared_encoding_gets_no_budget_of_its_own(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_text(home / "a.csv")
    (home / "b.csv").write_bytes((home / "a.csv").read_bytes())
    narrow = '[columns.Leiden]\nkind = "text"\nvalues = ["x"]\n'
    for name, encoding in (("a", "cp1252"), ("b", "cp850")):
        (home / f"{name}.toml").write_text(
            f'table = "{name}"\nfile.encoding = "{encoding}"\n{narrow}'
        )
    assert run(["init", "v"]) == 0
    more = ("--epsilon", "1", "--vault", "v")
    assert run(["add", "a", "a.csv", "--schema", "a.toml", *more]) == 0
    assert run(["add", "b", "b.csv", "--schema", "b.toml", *more]) == 2
    assert "would get a fresh budget" in capsys.readouterr().err


def test_F20_bytes_in_one_row_do_not_fail_a_question(home: Path) -> None:
    as_text(home / "leute.csv", encoding="utf-8")
    (home / "s.toml").write_text(SCHEMA.format(file=""))
    assert run(["init", "v"]) == 0
    more = ("--schema", "s.toml", "--epsilon", "9", "--vault", "v")
    assert run(["add", "leute", "leute.csv", *more]) == 0
    with (home / "leute.csv").open("ab") as file:
        file.write(b"\r\n160;K\xf6ln;\0\r\n")  # a row of another program, and no text at all
    with open_vault(home / "v") as vault:
        answer = vault.query("SELECT COUNT(*) AS n FROM leute", epsilon=8)
        assert answer.table["n"][0].as_py() == pytest.approx(301, abs=10)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "cp1252", "cp850", "gb2312", "euc_kr"])
def test_F20_a_broken_letter_swallows_no_sign(home: Path, encoding: str) -> None:
    """Every encoding that a vault takes: whatever letter is broken, at the end of any cell."""
    (home / "s.toml").write_text(
        f'table = "leute"\nfile.encoding = "{encoding}"\n'
        '[columns.a]\nkind = "text"\n[columns.b]\nkind = "text"\n'
    )
    file = home / "leute.csv"
    bare = {"utf-16": "utf-16-le", "utf-32": "utf-32-le"}.get(encoding, encoding)
    sample = "a;b\nx;y\n".encode(encoding)
    file.write_bytes(sample)
    with sf.init(home / "v") as vault:
        vault.add("leute", str(file), str(home / "s.toml"), epsilon=9)
    units = [bytes([byte]) for byte in range(128, 256)]
    if bare != encoding:
        width = len("a".encode(bare))
        units = [code.to_bytes(width, "little") for code in (0xD83D, 0xDC00, 0xDFFF, 0xFFFF)]
    mark, sign, end = (one.encode(bare) for one in ('"', ";", "\n"))
    rows = [unit + sign + mark + unit + mark for unit in units]
    file.write_bytes(sample + end.join(rows))
    with open_vault(home / "v") as vault:
        answer = vault.query("SELECT COUNT(*) AS n FROM leute", epsilon=8)
    assert answer.table["n"][0].as_py() == pytest.approx(1 + len(units), abs=10)


@pytest.mark.parametrize(
    "encoding", ["gbk", "gb18030", "big5", "shift_jis", "johab", "euc_jp", "iso2022_jp", "hz"]
)
def test_F20_encodings_that_swallow_signs_are_for_the_owner(home: Path, encoding: str) -> None:
    (home / "leute.csv").write_bytes(b"a;b\nx;y\n")
    (home / "s.toml").write_text(
        f'table = "leute"\nfile.encoding = "{encoding}"\n'
        '[columns.a]\nkind = "text"\n[columns.b]\nkind = "text"\n'
    )
    assert "2 columns" in repr(read("leute.csv", schema="s.toml"))
    with pytest.raises(SchemaError, match="Save the file as UTF-8"):
        read("leute.csv", schema="s.toml", strict=False)
    with (
        sf.init(home / "v") as vault,
        pytest.raises(SchemaError, match="Save the file as UTF-8") as refusal,
    ):
        vault.add("leute", "leute.csv", "s.toml", epsilon=9)
    assert refusal.value.code == "encoding_wrong"


@pytest.mark.parametrize("folder", [False, True])
def test_F20_the_last_row_of_a_parquet_file_may_go(home: Path, folder: bool) -> None:
    (home / "s.toml").write_text(
        'table = "leute"\n[columns.a]\nkind = "boolean"\n[columns.b]\nkind = "text"\n'
    )
    one = pa.table({"a": [True], "b": ["x"]})
    data = home / "data" if folder else home / "one.parquet"
    (home / "data").mkdir()
    parquet.write_table(one, home / "data" / "more.parquet")
    last = home / "data" / "one.parquet" if folder else data
    parquet.write_table(one, last)
    with sf.init(home / "v") as vault:
        vault.add("leute", str(data), str(home / "s.toml"), epsilon=9)
    parquet.write_table(one.slice(0, 0), last)
    with open_vault(home / "v") as vault:
        answer = vault.query("SELECT COUNT(*) AS n FROM leute", epsilon=8)
    assert answer.table["n"][0].as_py() == pytest.approx(int(folder), abs=10)
    assert "2 columns" in repr(read(str(data), schema=str(home / "s.toml")))


def test_inspect_says_what_it_found_and_writes_it(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    as_text(home / "leute.csv")
    assert run(["inspect", "leute.csv", "--write", "s.toml", "--json"]) == 0
    told = capsys.readouterr()
    assert "read as Windows-1252; one column is called 'Größe'" in told.err
    assert json.loads(told.out)["file"] == {"encoding": "windows-1252", "separator": ";"}
    assert '[file]\nencoding = "windows-1252"\nseparator = ";"\n' in (home / "s.toml").read_text()


@pytest.mark.parametrize(
    ("name", "header", "hint"),
    [
        ("a.tsv", "sex;age", "header holds ';': is it the separator? In a .tsv the tab is: name"),
        ("a.csv", "sex~age", "header holds '~': is it the separator? Add separator = \"~\" under"),
        ("a.csv", "sex;age", None),
        ("a.csv", "age", None),
        ("a.csv", "~sex,age", None),
    ],
)
def test_inspect_asks_about_a_column_that_looks_like_several(
    home: Path, capsys: pytest.CaptureFixture[str], name: str, header: str, hint: str | None
) -> None:
    rows = [header.replace("sex", "f").replace("age", str(age)) for age in range(20, 30)]
    (home / name).write_text("\n".join([header, *rows]))
    assert run(["inspect", name, "--json"]) == 0
    told = capsys.readouterr().err
    assert hint in told if hint else "separator" not in told


@pytest.mark.parametrize("name", ["out.csv", "out.tsv", "out.txt.gz", "out.xlsx", "out.parquet"])
def test_a_release_is_written_as_its_table_was_and_read_again(home: Path, name: str) -> None:
    as_text(home / "leute.csv")
    (home / "s.toml").write_text(SCHEMA.format(file='file.encoding = "windows-1252"'))
    options = ("--schema", "s.toml", "--k", "5", "--suppress", "0.1")
    assert run(["anonymize", "leute.csv", *options, "-o", name]) == 0
    if name == "out.csv":
        assert "Größe;Ort;Leiden\n".encode("cp1252") in (home / name).read_bytes()
    if name == "out.tsv":
        assert "Größe\tOrt\tLeiden\n".encode("cp1252") in (home / name).read_bytes()
    with closing(read("leute.csv", "s.toml")) as people:
        expected = anonymize(people, [sf.KAnonymity(5)], suppress="0.1").release().table
    loaded = Release.load(home / name).table
    assert sorted(map(str, loaded.to_pylist())) == sorted(map(str, expected.to_pylist()))
    assert run(["measure", name, "--schema", "s.toml", "--original", "leute.csv"]) == 0
    (home / f"{name}.json").unlink()  # whoever has the schema reads it without the side-car
    assert run(["measure", name, "--schema", "s.toml"]) == 0


def test_the_tables_of_a_folder_are_written_so_too(home: Path) -> None:
    as_text(home / "leute.csv")
    (home / "s.toml").write_text(SCHEMA.format(file='file.encoding = "windows-1252"'))
    options = ("--schema", "s.toml", "--l", "2", "--algorithm", "anatomy")
    assert run(["anonymize", "leute.csv", *options, "-o", "out"]) == 0
    assert "Größe;Ort;".encode("cp1252") in (home / "out" / "quasi.csv").read_bytes()
    assert "Migräne;".encode("cp1252") in (home / "out" / "sensitive.csv").read_bytes()
    assert set(Release.load(home / "out").tables) == {"quasi", "sensitive"}
    assert run(["measure", "out", "--schema", "s.toml", "--original", "leute.csv"]) == 0
