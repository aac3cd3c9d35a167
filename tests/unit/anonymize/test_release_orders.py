"""The order of an ordered distance is the one that the schema declares, and is named."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.anonymize.measure import measure
from sfumato.anonymize.original import order_of
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Tree, Widths
from sfumato.data.schema.schema import Schema
from sfumato.errors import CriterionError
from sfumato.release.open_table import read

if TYPE_CHECKING:
    from collections.abc import Sequence

AGE = Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 3), Widths((2,)))
LEVELS = ("low", "medium", "high", "severe")
SEVERITY = Column("severity", Kind.TEXT, Role.SENSITIVE, Values(LEVELS))
# Two classes, {low, medium} and {high, severe}: each is 1/3 from the whole in the declared order,
# and 1/6 by alphabet (high, low, medium, severe).
ROWS = pa.table({"age": [0, 1, 2, 3], "severity": [*LEVELS]})


def test_the_declared_order_decides() -> None:
    schema = Schema("people", (AGE, SEVERITY))
    table = read(ROWS, schema)
    release = table.anonymize(sf.TCloseness("0.34", "severity", distance="ordered"))
    assert set(release.table["age"].to_pylist()) == {"0-1", "2-3"}
    assert release.guarantee.statement.startswith(
        "Every class of released rows satisfies 0.34-closeness of severity "
        "(ordered distance, declared order of values)."
    )
    near = table.anonymize(sf.TCloseness("0.2", "severity", distance="ordered"))
    assert set(near.table["age"].to_pylist()) == {"*"}
    found = measure(release.table, schema)
    assert found.sensitive["severity"]["t_ordered"] == pytest.approx(1 / 3)
    table.close()


def test_where_nothing_is_declared_it_is_the_alphabet() -> None:
    bare = Column("severity", Kind.TEXT, Role.SENSITIVE)
    table = read(ROWS, Schema("people", (AGE, bare)))
    release = table.anonymize(sf.TCloseness("0.2", "severity", distance="ordered"))
    assert set(release.table["age"].to_pylist()) == {"0-1", "2-3"}
    assert "texts by alphabet, nothing being declared" in release.guarantee.statement
    table.close()


def _ranked(column: Column, values: Sequence[Any]) -> list[Any]:
    ranks = order_of(column).ranks(values)
    return [values[list(ranks).index(rank)] for rank in range(len(values))]


def test_every_kind_of_order() -> None:
    tree = Tree(("z", "a", "m"), (("x", "*"), ("y", "*"), ("x", "*")))
    grown = Column("c", Kind.TEXT, Role.SENSITIVE, hierarchy=tree)
    assert tree.leaves == ("z", "m", "a")
    assert _ranked(grown, ["a", "m", "z", None]) == ["z", "a", "m", None]
    both = Column("c", Kind.TEXT, Role.SENSITIVE, Values(("m", "z", "a")), tree)
    assert _ranked(both, ["a", "m", "z"]) == ["m", "z", "a"]
    some = Column("c", Kind.TEXT, Role.SENSITIVE, Values(("m", "b")))
    assert _ranked(some, ["a", "b", "m", "y", None]) == ["m", "b", "a", "y", None]
    number = Column("c", Kind.INTEGER, Role.SENSITIVE, Values((3, 1, 2)))
    assert _ranked(number, [1, 2, 3]) == [3, 1, 2]
    plain = Column("c", Kind.REAL, Role.SENSITIVE)
    assert _ranked(plain, [-1.5, 2.0, float("nan"), None])[:2] == [-1.5, 2.0]
    day = Column("c", Kind.DATE, Role.SENSITIVE)
    assert _ranked(day, [date(2020, 1, 2), date(2021, 1, 1)]) == [
        date(2020, 1, 2),
        date(2021, 1, 1),
    ]
    names = [order_of(one).name for one in (grown, both, plain, day)]
    assert names == [
        "order of the hierarchy's leaves",
        "declared order of values",
        "numbers by size",
        "dates by time",
    ]


def test_a_promise_that_only_the_alphabet_keeps_is_refused() -> None:
    one = pa.table({"age": [0, 0, 3, 3], "severity": [*LEVELS]})
    bound = Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 3), Tree((0, 3), (("*",), ("*",))))
    table = read(one, Schema("people", (bound, SEVERITY)))
    released = table.anonymize(sf.TCloseness(0, "severity", distance="ordered"))
    assert set(released.table["age"].to_pylist()) == {"*"}
    with pytest.raises(CriterionError):
        table.anonymize(sf.KAnonymity(5), sf.TCloseness(0, "severity", distance="ordered"))
    table.close()
