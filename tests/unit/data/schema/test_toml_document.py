from __future__ import annotations

import tomllib

import pytest

from sfumato.data.schema.column import Kind
from sfumato.data.schema.toml_document import DOMAIN, KeyPath, Lines, add_line, section_header
from sfumato.errors import SchemaError

TEXT = '''\
# [columns.fake]
table = "p" # x = 1
"quoted key" = """
[not.a.header]
x = 2
"""

[columns.zip] # = [
kind = 'it''s'
values = [ # first
    "a, b",
    "c = d",
    [1, 2,
     3],
]
[ columns . "a.b" ]
bounds = [0.5, 1.5]
hierarchy = { tree = { Europe = ["FR",
  "DE"], "Far = East" = [
  "JP"] } }
a.b.c = 1979-05-27T07:32:00Z
[[array]]
x = -1
[[array]]
y = """a\\"""" # six
z = \'\'\'
'\'\'\'
last = true\
'''


@pytest.mark.parametrize(
    ("key_path", "line"),
    [
        (("table",), 2),
        (("quoted key",), 3),
        (("columns",), 8),
        (("columns", "zip"), 8),
        (("columns", "zip", "kind"), 9),
        (("columns", "zip", "values"), 10),
        (("columns", "zip", "values", 0), 11),
        (("columns", "zip", "values", 1), 12),
        (("columns", "zip", "values", 2), 13),
        (("columns", "zip", "values", 2, 2), 14),
        (("columns", "a.b"), 16),
        (("columns", "a.b", "bounds", 1), 17),
        (("columns", "a.b", "hierarchy"), 18),
        (("columns", "a.b", "hierarchy", "tree", "Europe"), 18),
        (("columns", "a.b", "hierarchy", "tree", "Europe", 1), 19),
        (("columns", "a.b", "hierarchy", "tree", "Far = East"), 19),
        (("columns", "a.b", "hierarchy", "tree", "Far = East", 0), 20),
        (("columns", "a.b", "a", "b", "c"), 21),
        (("array",), 22),
        (("array", 0, "x"), 23),
        (("array", 1), 24),
        (("array", 1, "y"), 25),
        (("array", 1, "z"), 26),
        (("array", 1, "last"), 28),
        (("columns", "zip", "absent", 3), 8),
        (("absent",), 1),
    ],
)
def test_lines(key_path: KeyPath, line: int) -> None:
    assert Lines(TEXT, "x.toml").line(key_path) == line


def test_carriage_returns() -> None:
    assert Lines(TEXT.replace("\n", "\r\n"), "x.toml").line(("columns", "a.b")) == 16


@pytest.mark.parametrize(
    "text",
    [
        "[" * 5,
        "a = [}",
        '"""',
        "'''",
        "= = =",
        "a = 'b",
        '"\\',
        "}{][",
        "\x00",
        "a b c",
        "[[[a",
        "",
    ],
)
def test_what_is_no_toml_is_left_to_the_parser(text: str) -> None:
    assert Lines(text, "x.toml").line(("columns",)) >= 1


@pytest.mark.parametrize(
    "text",
    [
        "\n\na = " + "[" * 100_000,
        "\n\na = " + "{ b = " * 100_000,
        "\n\n" + "a." * 100_000 + "a = 1",
        "\n\n[" + "a." * 100_000 + "a]",
        "\n\na = " + "[{ b = " * 100_000,
    ],
)
def test_depth(text: str) -> None:
    with pytest.raises(SchemaError, match=r"^x\.toml, line 3: nested deeper than 32") as caught:
        Lines(text, "x.toml")
    assert caught.value.code == "schema_malformed"


def test_depth_allowed() -> None:
    assert Lines("\na = " + "[" * 32 + "]" * 32, "x.toml").line(("a",)) == 2


@pytest.mark.parametrize("name", ["age", "Anteil Zuzahlung", 'the "real" one', "Größe", "a\\b\x7f"])
def test_a_section_is_what_a_file_has(name: str) -> None:
    assert tomllib.loads(f"{section_header(name)}\nkind = 1") == {"columns": {name: {"kind": 1}}}


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_line_to_add(kind: Kind) -> None:
    assert tomllib.loads(DOMAIN[kind])
    assert add_line("a b", DOMAIN[kind]) == f'Add to [columns."a b"] in its schema: {DOMAIN[kind]}'
