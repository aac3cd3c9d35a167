"""The [file] table of a schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sfumato.data.schema.layout import FileLayout
from sfumato.data.schema.schema_file import dump, load
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from pathlib import Path

REST = '\n[columns.a]\nkind = "integer"\n'


def loaded(folder: Path, text: str) -> FileLayout:
    path = folder / "s.toml"
    path.write_text(text, encoding="utf-8")
    schema = load(path)
    path.write_text(dump(schema, folder=folder), encoding="utf-8")
    assert load(path) == schema  # what is saved is what was declared
    return schema.layout


@pytest.mark.parametrize(
    ("lines", "layout"),
    [
        ("", FileLayout()),
        ('[file]\nencoding = "windows-1252"\nseparator = ";"\n', FileLayout("windows-1252", ";")),
        ('file.encoding = "latin-1"\n', FileLayout("latin-1")),
        ('[file]\nseparator = "tab"\n', FileLayout(separator="\t")),
        ('[file]\nseparator = "\\t"\n', FileLayout(separator="\t")),
        ('[file]\nseparator = "space"\n', FileLayout(separator=" ")),
        ('[file]\nsheet = "Tabelle1"\nheader_row = 3\n', FileLayout(None, None, "Tabelle1", 3)),
    ],
)
def test_what_is_declared_is_kept(tmp_path: Path, lines: str, layout: FileLayout) -> None:
    assert loaded(tmp_path, 'table = "t"\n' + lines + REST) == layout


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ('encoding = "klingon"', "encoding_wrong"),
        ('encoding = "base64"', "encoding_wrong"),
        ('encoding = "idna"', "encoding_wrong"),
        ('encoding = "undefined"', "encoding_wrong"),
        ('encoding = ""', "encoding_wrong"),
        ('encoding = "a\\u0000b"', "encoding_wrong"),
        ('separator = ""', "spelling_invalid"),
        ('separator = "::"', "spelling_invalid"),
        ('separator = "x"', "spelling_invalid"),
        ('separator = "\\""', "spelling_invalid"),
        ('separator = "."', "spelling_invalid"),
        ('separator = "§"', "spelling_invalid"),
        ("separator = 5", "schema_malformed"),
        ("header_row = 0", "table_malformed"),
        ("header_row = true", "schema_malformed"),
        ('decimal = ","', "schema_malformed"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(tmp_path: Path, line: str, code: str) -> None:
    with pytest.raises(SchemaError, match=r"s\.toml, line 3: ") as refusal:
        loaded(tmp_path, f'table = "t"\n[file]\n{line}\n' + REST)
    assert refusal.value.code == code
