"""Rows that belong to two people: every door refuses them before a charge, or bounds by projection.

Kinds are read off the catalogues, so that a new one is asked here too. That each is refused for the
unit alone is seen under another unit, under which the same can be prepared.
"""

from __future__ import annotations

from datetime import date
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.data.schema.schema import Edges, Items, Points
from sfumato.data.schema.unit import Entity, Rows, Ties
from sfumato.methods.learn.catalogue import KINDS as MODELS
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.stream.catalogue import METHODS as STREAMS
from sfumato.methods.synth.methods import METHOD_WORDS
from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.data.schema.unit import Unit

REFUSED, TWO = "unit_unsupported", Ties(("from", "to"), 4)
COLUMNS = (
    *(sf.Column(one, sf.Kind.INTEGER, sf.Role.IDENTIFIER, sf.Bounds(0, 99), nullable=False)
      for one in ("from", "to")),
    sf.Column("word", sf.Kind.TEXT, domain=sf.Values(("u", "v", "w")), nullable=False),
    sf.Column("two", sf.Kind.TEXT, domain=sf.Values(("u", "v")), nullable=False),
    sf.Column("stars", sf.Kind.INTEGER, domain=sf.Bounds(1, 5), nullable=False),
    sf.Column("at", sf.Kind.INTEGER, domain=sf.Bounds(0, 999), nullable=False),
    *(sf.Column(one, sf.Kind.REAL, domain=sf.Bounds(0, 8, 1), nullable=False) for one in "xy"),
)  # fmt: skip
FORMS = {
    "rows": None,
    "edges": Edges("from", "to"),
    "items": Items("from", "word", "stars"),
    "points": Points("from", "at", "x", "y"),
}
PEOPLE = [(one, (one + step) % 40) for one in range(40) for step in (1, 2)]
ROWS = pa.table({
    "from": [one for one, _ in PEOPLE],
    "to": [other for _, other in PEOPLE],
    "word": ["uvw"[one % 3] for one, _ in PEOPLE],
    "two": ["uv"[one % 2] for one, _ in PEOPLE],
    "stars": [1 + one % 5 for one, _ in PEOPLE],
    "at": [one + 2 * other for one, other in PEOPLE],
    "x": [float(one % 8) for one, _ in PEOPLE],
    "y": [float(other % 8) for _, other in PEOPLE],
})  # fmt: skip
NODES = {"nodes": 40}


class Asked(NamedTuple):
    """What is asked of which family, of a table of which form."""

    family: str
    form: str
    named: tuple[Any, ...]
    values: dict[str, Any]

    @property
    def other_unit(self) -> Unit:
        """One under which it can be asked."""
        return Entity("from", 4) if self.form in ("items", "points") else Rows()


OPTIONS: dict[str, dict[str, Any]] = {
    **{one: {"columns": "x,y"}
       for one in ("quadtree", "kdtree", "hybrid", "privtree", "adaptive-grid")},
    "marginals": {"columns": "word,stars"},
    "sparse": {"columns": "word,stars", "delta": 1e-6},
    "above": {"columns": "stars", "workload": [[[1, 2]]], "threshold": 3},
    "degrees": NODES,
    "search-log": {"delta": 1e-6},
}  # fmt: skip


def _published() -> Iterator[Asked]:
    for kind, one in KINDS.items():
        usual = {"columns": "stars"} if one.form == "rows" else {}
        yield Asked("publish", one.form, (kind,), OPTIONS.get(kind, usual))


def _learnt() -> Iterator[Asked]:
    targets = {"number": {"target": "stars"}, "class": {"target": "word"}, "none": {}}
    for kind, one in MODELS.items():
        features = {} if one.form == "items" else {"features": "x,y"}
        goal = {"target": "two"} if kind == "perceptron" else targets[one.target]
        yield Asked("learn", one.form, (kind,), {**features, **goal})


def _made_up() -> Iterator[Asked]:
    for method in METHOD_WORDS:
        more = {"workload": [["word", "stars"]]} if method == "workload" else {}
        yield Asked("synthesize", "rows", (), {"form": "table", "method": method, **more})
    yield Asked("synthesize", "edges", (), NODES)
    yield Asked("synthesize", "edges", (), {"method": "chung-lu", **NODES})
    yield Asked("synthesize", "items", (), {})
    yield Asked("synthesize", "points", (), {})


def _questions() -> Iterator[Asked]:
    for select in (
        "COUNT(*)", "SUM(stars)", "AVG(x)", "MEDIAN(stars)", "COUNT(DISTINCT word)",
        'COUNT(DISTINCT "from")', "MAX(stars)",
    ):  # fmt: skip
        yield Asked("query", "rows", (f"SELECT {select} FROM t",), {})
    yield Asked("query", "rows", ("SELECT word, COUNT(*) FROM t GROUP BY word",), {})


ASKED = [
    *_questions(),
    *_published(),
    Asked("above", "rows", (), OPTIONS["above"]),
    *_made_up(),
    *_learnt(),
]


def _told(one: Asked) -> str:
    return " ".join([one.family, one.form, *map(str, one.named), one.values.get("method", "")])


@cache
def _private(form: str, unit: Unit) -> sf.Private:
    schema = sf.Schema("t", COLUMNS, form=FORMS[form])
    return sf.protect(sf.read(ROWS, schema=schema), unit=unit, epsilon=9)


@pytest.mark.parametrize("one", ASKED, ids=_told)
def test_a_door_refuses_rows_of_two_before_a_charge(one: Asked) -> None:
    private = _private(one.form, TWO)
    before = private.balance
    if one.named == ("node-degrees",):  # the one that bounds by projection
        prepared: Any = private.prepare(FAMILIES["publish"], kind=one.named[0])
        assert prepared.method.most == TWO.max_rows
        return
    door = getattr(private, one.family)
    assert code_of(door, *one.named, **one.values) == REFUSED
    assert private.balance == before


@pytest.mark.parametrize("one", ASKED, ids=_told)
def test_the_same_can_be_asked_under_another_unit(one: Asked) -> None:
    """So that what is refused above is refused for the unit, and not for how it is asked."""
    private = _private(one.form, one.other_unit)
    if one.named == ("node-degrees",):
        assert code_of(private.publish, *one.named) == "unit_unsupported"
        return
    first = "asked" if one.family == "query" else "kind"
    named = dict(zip([first], one.named, strict=False))
    assert private.prepare(FAMILIES[one.family], **named, **one.values).event is not None


STREAMED: dict[str, dict[str, Any]] = {
    "w-event": {"window": 3},  # which once was charged before it failed
    "histogram": {"by": "word"},
    "top": {"by": "word", "days": 2, "top": 1},
}


@pytest.mark.parametrize("method", STREAMS)
def test_a_stream_is_refused_before_a_charge(method: str) -> None:
    private = _private("rows", TWO)
    asked = {"periods": 4, "epsilon": "0.5", **STREAMED.get(method, {})}
    before = private.balance
    assert code_of(private.stream, method, **asked) == REFUSED
    assert code_of(private.stream, method, **{**asked, "days": 2}) == REFUSED
    assert private.balance == before
    assert _private("rows", Entity("from", 5)).stream(method, **asked).receipt


def _size(rows: pa.Table) -> float:
    return float(rows.num_rows)


def test_programs_and_plans_are_refused() -> None:
    private = _private("rows", TWO)
    before = private.balance
    for door in (private.run, private.dry_run):
        assert code_of(door, _size, output=[(0, 9)], blocks=4) == REFUSED
    assert code_of(private.plan, "histogram", columns="stars") == REFUSED
    assert code_of(private.plan_synthesis, form="table") == REFUSED
    assert code_of(private.explain, "SELECT COUNT(*) FROM t") == REFUSED
    assert private.balance == before


TIES = """table = "ties"
unit = { people = ["from", "to"], max_rows = 4 }
form = { edges = ["from", "to"] }
[columns.from]
role = "identifier"
kind = "integer"
nullable = false
[columns.to]
role = "identifier"
kind = "integer"
nullable = false
[columns.agreed]
kind = "boolean"
nullable = false
[columns.day]
kind = "date"
bounds = [2024-01-01, 2024-12-31]
nullable = false
"""
MEMBERS = """table = "members"
unit = { column = "id", max_rows = 1 }
[columns.id]
role = "identifier"
kind = "integer"
nullable = false
[columns.club]
kind = "text"
values = ["u", "v"]
nullable = false
"""


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[sf.Vault]:
    folder = tmp_path_factory.mktemp("two")
    (folder / "ties.toml").write_text(TIES)
    (folder / "members.toml").write_text(MEMBERS)
    ties = ROWS.select(["from", "to"])
    ties = ties.append_column("agreed", pa.array([True] * len(ties)))
    ties = ties.append_column("day", pa.array([date(2024, 1 + at % 12, 1) for at in range(80)]))
    pq.write_table(ties, folder / "ties.parquet")
    members = {"id": list(range(40)), "club": ["uv"[one % 2] for one in range(40)]}
    pq.write_table(pa.table(members), folder / "members.parquet")
    with sf.init(folder / "vault") as made:
        made.add("ties", folder / "ties.parquet", folder / "ties.toml", epsilon=9)
        made.add("members", folder / "members.parquet", folder / "members.toml", population="ties")
        yield made


@pytest.mark.parametrize(
    "asked",
    [
        {"sql": "SELECT COUNT(*) FROM ties"},
        {"family": "publish", "dataset": "ties", "kind": "histogram", "columns": "day"},
        {"family": "publish", "dataset": "ties", "kind": "triangles"},
        {"family": "synthesize", "dataset": "ties", "form": "table"},
        {"family": "continual", "dataset": "ties"},
        {"family": "continual", "dataset": "ties", "method": "w-event", "window": 3},
    ],
    ids=str,
)
def test_a_feed_is_refused(vault: sf.Vault, asked: dict[str, Any]) -> None:
    told = {"column": "day", "every": "month", "epsilon": "0.1", "operator": "Ann"}
    before = vault.private("ties").balance
    assert code_of(vault.feed_registry.add, "months", **told, **asked) == REFUSED
    assert vault.private("ties").balance == before
    assert not vault.feed_registry.list()


def test_two_tables_are_refused_where_one_is_of_two(vault: sf.Vault) -> None:
    before = vault.private("ties").balance
    joined = 'SELECT COUNT(*) FROM members AS m JOIN ties AS t ON m.id = t."from"'
    assert code_of(vault.query, joined) == REFUSED
    members, ties = vault.private("members"), vault.private("ties")
    assert code_of(members.synthesize, child="ties", key="id") == REFUSED
    assert code_of(ties.synthesize, people="members", **NODES) == REFUSED
    assert code_of(ties.synthesize, form="table", child="members", key="from") == REFUSED
    assert vault.private("ties").balance == before


@pytest.mark.parametrize("said", [{"consent": "agreed"}, {"purposes": ["care"]}])
def test_who_agreed_is_not_asked_of_two(
    vault: sf.Vault, tmp_path: Path, said: dict[str, Any]
) -> None:
    (tmp_path / "ties.toml").write_text(TIES)
    place = tmp_path / "ties.parquet"
    pq.write_table(pa.table({"from": [1], "to": [2], "agreed": [True], "day": [date(2024, 1, 1)]}),
                   place)  # fmt: skip
    assert code_of(vault.add, "more", place, tmp_path / "ties.toml", epsilon=1, **said) == REFUSED


def test_a_vault_that_says_both_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    """The unit of the vault counts, and not that of the file of the schema."""
    (tmp_path / "ties.toml").write_text(TIES.replace(TIES.splitlines()[1], 'unit = "row"'))
    place = tmp_path / "ties.parquet"
    pq.write_table(pa.table({"from": [1], "to": [2], "agreed": [True], "day": [date(2024, 1, 1)]}),
                   place)  # fmt: skip
    with sf.init(tmp_path / "vault") as made:
        made.add("ties", place, tmp_path / "ties.toml", epsilon=1, consent="agreed")
    config = tmp_path / "vault" / "vault.toml"
    text = config.read_text()
    assert 'unit = "row"' in text
    config.write_text(text.replace('unit = "row"', TIES.splitlines()[1]))
    assert code_of(lambda: sf.open(tmp_path / "vault").private("ties")) == REFUSED
