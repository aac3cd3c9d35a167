from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

from sfumato.data.schema.column import Kind
from sfumato.data.schema.hierarchy import ROOT, Tree, read_tree
from sfumato.errors import SchemaError

ADULT = Path(__file__).parents[5] / "../shared/data/adult"


def read(tmp_path: Path, content: str | bytes, kind: Kind = Kind.TEXT) -> Tree:
    file = tmp_path / "tree.csv"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_tree(file, kind)


def test_leaves_of_one_label_lie_together() -> None:
    tree = Tree(("FR", "JP", "DE", "CN"), tuple((c, ROOT) for c in ("EU", "Asia", "EU", "Asia")))
    taxonomy = tree.grow(["JP"])
    assert taxonomy.leaves == ("FR", "DE", "JP", "CN")
    assert taxonomy.labels == (("FR", "DE", "JP", "CN"), ("EU", "Asia"), (ROOT,))
    assert taxonomy.codes.tolist() == [[0, 0, 0], [1, 0, 0], [2, 1, 0], [3, 1, 0]]
    assert [size.tolist() for size in taxonomy.sizes] == [[1, 1, 1, 1], [2, 2], [4]]


def test_a_tree_grows_over_its_own_leaves_and_refuses_others_at_once() -> None:
    tree = Tree(("a", "b"), ((ROOT,), (ROOT,)))
    assert tree.grow([]).leaves == ("a", "b")
    assert tree.grow([None]).leaves == ("a", "b", None)
    with pytest.raises(SchemaError) as caught:
        tree.grow(["a", *(f"secret{i}" for i in range(7))])
    assert caught.value.code == "value_outside_domain"
    assert "7 values" in caught.value.message
    assert "secret" not in caught.value.message
    assert (caught.value.detail or "").count("secret") == 5


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        ("a;x;*\nb;x\n", "hierarchy_invalid", ["'b'", "1 level", "'a'", "2"]),
        ("a;x;*\nb;;*\n", "hierarchy_invalid", ["'b'", "level 1"]),
        ("a;x;*\na;x;*\n", "hierarchy_invalid", ["'a'", "level 0"]),
        ("a;x;*\na;y;*\n", "hierarchy_invalid", ["'a'", "level 0", "'x' and 'y'"]),
        ("a;x;p;*\nb;x;q;*\n", "hierarchy_invalid", ["'x'", "level 1", "'p' and 'q'"]),
        ("a;x;*\nb;x;+\n", "hierarchy_invalid", ["level 2", "'*' and '+'"]),
        ("a;b;a;*\n", "hierarchy_invalid", ["'a'", "'b'", "level"]),
        ("a;b;*\nb;a;*\n", "hierarchy_invalid", ["'a'", "'b'", "level"]),
        ("a;*;x;*\n", "hierarchy_invalid", ["'*'", "'x'"]),
        ("a\nb\n", "hierarchy_invalid", ["'a'"]),
        ("", "hierarchy_invalid", ["at least one value"]),
        ("\n\n", "hierarchy_invalid", ["at least one value"]),
        ('"a;x;*\n', "hierarchy_invalid", ["line 1"]),
        (b"a;x;*\n\xe4;x;*\n", "encoding_wrong", ["line 2", "byte 6", "0xe4", "UTF-8"]),
        ("a;*\n".encode("utf-16"), "encoding_wrong", ["UTF-16"]),
    ],
)
def test_bad_files(tmp_path: Path, content: str | bytes, code: str, words: list[str]) -> None:
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, content)
    assert caught.value.code == code
    assert "\n" not in caught.value.message
    for word in ["tree.csv", *words]:
        assert word in caught.value.message


def test_a_label_may_stay_on_the_way_up(tmp_path: Path) -> None:
    tree = read(tmp_path, "a;x;X;*\nOther;Other;Other;*\n")
    assert tree.ancestors[1] == ("Other", "Other", ROOT)


def test_any_single_top_is_the_root(tmp_path: Path) -> None:
    assert read(tmp_path, "a,World\nb,World").grow([]).labels == (("a", "b"), (ROOT,))


@pytest.mark.parametrize(
    "content",
    [
        "Smith, J;x;*\n",
        '"Smith, J",x,*\r\n',
        "\ufeffSmith, J;x;*",
        "\r\nSmith, J;x;*\r\n\r\n",
        "Smith, J;x;*\r\r",
    ],
    ids=["semicolon", "quoted comma", "byte order mark", "blank lines", "carriage returns"],
)
def test_separators_and_marks(tmp_path: Path, content: str) -> None:
    tree = read(tmp_path, content)
    assert (tree.leaves, tree.ancestors) == (("Smith, J",), (("x", ROOT),))


@pytest.mark.parametrize(
    "content",
    ["a;" + "b" * 200_000 + ";*\n", 'a;"b\n'],
    ids=["a long cell", "a quote without end"],
)
def test_what_is_no_table_is_refused_with_its_line(tmp_path: Path, content: str) -> None:
    with pytest.raises(SchemaError) as error:
        read(tmp_path, content)
    assert error.value.code == "hierarchy_invalid"
    assert "line " in error.value.message
    assert len(error.value.message) < 500


def test_unicode_line_separators_end_no_row(tmp_path: Path) -> None:
    assert read(tmp_path, "a\u2028b\x85;*\n").leaves == ("a\u2028b\x85",)


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("007", Kind.INTEGER, 7),
        ("1.50", Kind.REAL, Decimal("1.5")),
        ("2024-02-29", Kind.DATE, date(2024, 2, 29)),
        ("TRUE", Kind.BOOLEAN, True),
    ],
)
def test_leaves_have_their_kind(tmp_path: Path, text: str, kind: Kind, value: object) -> None:
    tree = read(tmp_path, f"{text};*\n", kind)
    assert tree.leaves == (value,)
    assert tree.kinds == {kind}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1e5", Kind.INTEGER),
        ("٣", Kind.INTEGER),
        (" 5", Kind.INTEGER),
        ("nan", Kind.REAL),
        ("2024-02-30", Kind.DATE),
        ("20240229", Kind.DATE),
        ("1", Kind.BOOLEAN),
    ],
)
def test_leaves_of_another_kind(tmp_path: Path, text: str, kind: Kind) -> None:
    with pytest.raises(SchemaError) as caught:
        read(tmp_path, f"\n{text};*\n", kind)
    assert caught.value.code == "kind_mismatch"
    assert "line 2" in caught.value.message
    assert str(kind) in caught.value.message


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="cannot be read") as caught:
        read_tree(tmp_path / "absent.csv", Kind.TEXT)
    assert caught.value.code == "file_unreadable"
    with pytest.raises(SchemaError) as caught:
        read_tree(tmp_path, Kind.TEXT)
    assert caught.value.code == "file_unreadable"
    with pytest.raises(SchemaError) as caught:
        read_tree(Path("/dev/zero"), Kind.TEXT)
    assert caught.value.code == "file_unreadable"


@pytest.mark.skipif(not ADULT.is_dir(), reason="the shared Adult data are not here")
@pytest.mark.parametrize(
    ("name", "kind", "labels"),
    [
        ("age", Kind.INTEGER, [100, 20, 10, 5, 1]),
        ("education", Kind.TEXT, [16, 5, 3, 1]),
        ("marital-status", Kind.TEXT, [7, 2, 1]),
        ("native-country", Kind.TEXT, [41, 5, 1]),
        ("occupation", Kind.TEXT, [14, 3, 1]),
        ("race", Kind.TEXT, [5, 1]),
        ("salary-class", Kind.TEXT, [2, 1]),
        ("sex", Kind.TEXT, [2, 1]),
        ("workclass", Kind.TEXT, [8, 3, 1]),
    ],
)
def test_adult(name: str, kind: Kind, labels: list[int]) -> None:
    taxonomy = read_tree(ADULT / f"adult_hierarchy_{name}.csv", kind).grow([])
    assert [len(level) for level in taxonomy.labels] == labels
    if name == "age":
        assert taxonomy.leaves == tuple(range(1, 101))
        assert [sorted(set(size.tolist())) for size in taxonomy.sizes] == [
            [1],
            [5],
            [10],
            [20],
            [100],
        ]
