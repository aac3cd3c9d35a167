"""Every object shows itself: in one line, and in a notebook as HTML that no name can break."""

from __future__ import annotations

from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato as sf
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

EVIL = "<script>alert('x')</script>"
VALUES = ("<b>bold</b>", "a&b", '"')
VOID = {"br", "hr", "img", "meta", "link", "input"}


class Tree(HTMLParser):
    """Whether tags are closed in order, which there are, and what is said."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert all(name in {"style", "scope"} for name, _ in attrs)
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """One of each, all with a hostile column and hostile values."""
    folder = tmp_path_factory.mktemp("shown")
    rows = pa.table(
        {"age": [20 + place % 40 for place in range(90)], EVIL: [VALUES[n % 3] for n in range(90)]}
    )
    schema = sf.Schema(
        EVIL,
        (
            sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), sf.Widths((5, 50))),
            sf.Column(EVIL, sf.Kind.TEXT, sf.Role.SENSITIVE, sf.Values(VALUES)),
        ),
    )
    parquet.write_table(rows, folder / "rows.parquet")
    table = sf.read(rows, schema)
    private = sf.protect(table, epsilon=9, delta=1e-6)
    asked = f'SELECT "{EVIL}", COUNT(*) AS "<i>" FROM "{EVIL}" GROUP BY "{EVIL}"'
    vault = sf.init(folder / "clinic")
    vault.add("rows", folder / "rows.parquet", schema, epsilon=1)
    release = table.anonymize(k=5)
    release.save(folder / "out.parquet")
    yield {
        "table": table,
        "schema": schema,
        "inspection": table.inspect(),
        "measures": table.measure(),
        "bounds": sf.read(folder / "out.parquet", schema).worlds(f'SELECT COUNT(*) FROM "{EVIL}"'),
        "private": private,
        "answer": private.query(asked, epsilon=1),
        "explanation": private.explain(asked, epsilon=1),
        "plan": private.plan("histogram", columns=[EVIL], epsilon=1),
        "published": private.publish("histogram", columns=[EVIL], epsilon=1),
        "marginals": private.publish("marginals", columns=["age", EVIL], epsilon=1),
        "release": release,
        "vault": vault,
        "of vault": vault.private("rows"),
        "questions": vault.questions(),
    }
    vault.close()


KINDS = (
    *("table", "schema", "inspection", "measures", "bounds", "private", "answer", "explanation"),
    *("plan", "published", "marginals", "release", "vault", "of vault", "questions"),
)


@pytest.mark.parametrize("kind", KINDS)
def test_it_shows_itself(shown: dict[str, Any], kind: str) -> None:
    line = repr(shown[kind])
    assert len(line) <= 100
    assert "\n" not in line
    assert "cannot be shown" not in line
    page = Tree(shown[kind]._repr_html_())
    assert not page.tags & {"script", "b", "i", "style"}
    assert type(shown[kind]).__name__ in page.text


def test_cards_say_what_people_look_for(shown: dict[str, Any]) -> None:
    says = {kind: Tree(one._repr_html_()).text for kind, one in shown.items()}
    assert EVIL in says["schema"]
    assert "declared in the schema" in says["table"]
    assert "Hides whether any one row" in says["private"]
    assert all(value in says["answer"] for value in VALUES)
    assert "epsilon 1" in says["answer"]
    assert "5-anonymity" in says["release"]
    assert "Nothing was spent." in says["plan"]
    assert "unique for" in repr(shown["inspection"])
    assert "epsilon" in repr(shown["private"])
    assert "age" in repr(shown["of vault"])


def test_a_closed_vault_still_shows_itself(tmp_path: Path) -> None:
    vault = sf.init(tmp_path / "clinic")
    parquet.write_table(pa.table({"a": [1, 2]}), tmp_path / "a.parquet")
    one = sf.Schema("a", (sf.Column("a", sf.Kind.INTEGER, domain=sf.Bounds(0, 9)),))
    vault.add("a", tmp_path / "a.parquet", one, epsilon=1)
    private = vault.private("a")
    vault.close()
    assert "closed" in repr(vault)
    assert "closed" in repr(private)
    assert "closed" in Tree(private._repr_html_() or "").text


def test_a_repr_reads_no_row(monkeypatch: pytest.MonkeyPatch) -> None:
    table = sf.read({"a": [1, 2, 3]})
    private = sf.protect(table, epsilon=1)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a row was read")

    monkeypatch.setattr(type(table.engine), "run", refuse)
    monkeypatch.setattr(type(table.engine), "stream", refuse)
    for one in (table, table.schema, private):
        assert "cannot be shown" not in repr(one)
        assert one._repr_html_() is not None


def test_a_password_is_not_shown() -> None:
    from dataclasses import replace

    table = replace(sf.read({"a": [1]}), source="postgresql://me:secret@host/db#t")
    assert "secret" not in repr(table)
    assert "secret" not in (table._repr_html_() or "")


class Odd(Shown):
    """Shows whatever it is given, or fails."""

    def __init__(self, line: str | None) -> None:
        self.line = line

    def _card(self) -> Card:
        assert self.line is not None
        return Card(self.line, {"what": [1, {"x": 2.5}]}, CardTable(("n",), [(1,)], 12_345))


def test_a_repr_never_fails_and_steers_no_terminal() -> None:
    assert repr(Odd(None)) == "<Odd: cannot be shown>"
    assert Odd(None)._repr_html_() is None
    assert repr(Odd("a\x1b[31m\nb")) == "<Odd: a\ufffd[31m b>"
    assert len(repr(Odd("x" * 500))) == 100
    text = Tree(Odd("a")._repr_html_() or "").text
    assert "1; x 2.5" in text
    assert "and 12,345 more" in text
