"""Questions of the whole grammar, drawn at random, over a small world of tables.

`visits` and `homes` are about people, `places` is public. Every table expression that is drawn has
the columns of `visits`, so that any expression can stand anywhere.
"""

from __future__ import annotations

import re
from datetime import date
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

import pyarrow as pa
from sqlglot import exp

from sfumato.engines.kinds import STORED
from sfumato.errors import QueryError
from sfumato.privacy.units import Rows
from sfumato.query.plan import levels
from sfumato.query.plan.planner import plan_question
from sfumato.query.sql.relation import RowScope
from sfumato.query.sql.tables import PrivateRows, PublicRows, declared_table
from sfumato.schema.column import Column, Kind
from sfumato.schema.domain import Bounds, Values
from sfumato.schema.schema import Schema
from sfumato.testing.expressions import LETTERS, Expressions

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from sfumato.privacy.units import Unit
    from sfumato.query.plan import Plan
    from sfumato.query.sql.tables import Catalogue

C = TypeVar("C")

MOST_GROUPS = 3_000
"""Questions with more groups of declared keys are not drawn: they take long to compare."""

MOST_SCANS = 20
"""Nor are those that read tables more often, once the caps before their joins are written out."""

COLOURS = ("red", "blue")
DATES = (date(2020, 1, 30), date(2020, 3, 5))
_COLUMNS = (
    Column("i", Kind.INTEGER, domain=Bounds(-5, 7)),
    Column("j", Kind.INTEGER, domain=Values((-1, 0, 2))),
    Column("n", Kind.INTEGER, domain=Bounds(0, 3), nullable=False),
    Column("x", Kind.REAL, domain=Bounds(Decimal(-2), Decimal("3.5"))),
    Column("y", Kind.REAL, domain=Bounds(Decimal(0), Decimal(1), Decimal("0.25"))),
    Column("u", Kind.REAL),
    Column("t", Kind.TEXT),
    Column("s", Kind.TEXT, domain=Values(COLOURS)),
    Column("d", Kind.DATE, domain=Bounds(*DATES)),
    Column("e", Kind.DATE),
    Column("b", Kind.BOOLEAN),
    Column("c", Kind.BOOLEAN),
)
NAMES = tuple(column.name for column in _COLUMNS)
_CELLS: dict[str, tuple[Any, ...]] = {
    "i": (None, -(2**63), 2**63 - 1, 0, 1, 3, 7, -5),
    "j": (None, 0, -1, 2, 9),
    "n": (0, 1, 2, 3, 8),
    "x": (None, float("nan"), float("inf"), -0.0, 2.5, -1.75, 1e308, 5e-324),
    "y": (None, 0.25, 1.0, 0.3, -7.0),
    "u": (None, float("-inf"), 1.5, -1e200, 0.0),
    "t": (None, "", "12", "-5", "abc", " a_b", "9" * 30),
    "s": (None, "red", "blue", "elsewhere"),
    "d": (None, date(1, 1, 1), date(2020, 2, 29), date(2020, 1, 31), date(9999, 12, 31)),
    "e": (None, date(2020, 2, 29), date(1969, 12, 28), date(9999, 12, 31)),
    "b": (None, True, False),
    "c": (None, True, False),
}
_LARGEST = "SELECT s, MAX(k) AS k FROM places GROUP BY s"
_USED = re.compile(r"\bv\.([a-z])\b")
_PLACES = {"s": ["red", "blue", "blue", "green", None], "k": [1, 2, 3, 4, 5]}
PLACES = pa.table({"s": pa.array(_PLACES["s"]), "k": pa.array(_PLACES["k"], pa.int64())})


def rows(draw: np.random.Generator, count: int) -> pa.Table:
    """Rows of `visits` but for the person, with everything in them that makes engines stumble."""
    return pa.table(
        {
            one.name: pa.array(
                [
                    _CELLS[one.name][place]
                    for place in draw.integers(len(_CELLS[one.name]), size=count)
                ],
                STORED[one.kind],
            )
            for one in _COLUMNS
        }
    )


def catalogue(unit: Unit) -> Catalogue:
    """What is declared of the tables."""
    person = Column("who", Kind.TEXT, nullable=not unit.by_person)
    home = (person, Column("k", Kind.INTEGER, domain=Bounds(0, 3)))
    place = (
        Column("s", Kind.TEXT, domain=Values((*COLOURS, "green"))),
        Column("k", Kind.INTEGER, domain=Bounds(1, 5)),
    )
    return {
        "visits": PrivateRows(Schema("visits", (person, *_COLUMNS), unit), unit, "people"),
        "homes": PrivateRows(Schema("homes", home, unit), unit, "people"),
        "places": PublicRows(Schema("places", place), {("s",): 2}),
    }


class Grammar:
    """Draws questions about one unit."""

    def __init__(self, draw: np.random.Generator, unit: Unit) -> None:
        self._draw = draw
        self._by_person = unit.by_person
        self._catalogue = catalogue(unit)
        self._expressions = _expressions()
        self._names: dict[str, str] = {}

    def question(self) -> tuple[str, Plan]:
        """A question that can be answered: its words and its plan."""
        while True:
            words = self.words()
            plan = self.plan(words)
            if plan is not None:
                return words, plan

    def plan(self, words: str) -> Plan | None:
        """The plan of a question, if it can be answered and is no more work than wanted."""
        try:
            plan = plan_question(words, self._catalogue).plan
            groups = sum(level.groups or 0 for level in levels(plan))
        except QueryError:
            return None
        scans = sum(1 for _ in plan.source.find_all(exp.Table))
        return plan if groups <= MOST_GROUPS and scans <= MOST_SCANS else None

    def words(self) -> str:
        """The words of a question, which may be refused."""
        self._names = {}
        wanted = ", ".join(self._aggregate() for _ in range(self._draw.integers(1, 4)))
        rest = self._where() + self._groups()
        source = self._source(2, wanted + rest)
        words = f"SELECT {wanted} FROM {source}{rest}"
        words += self._one_of(["", "", " HAVING COUNT(*) > 2", " ORDER BY 1 LIMIT 3"])
        names = ", ".join(f"{name} AS ({body})" for name, body in self._names.items())
        return f"WITH {names} {words}" if names else words

    def _source(self, depth: int, above: str) -> str:
        """A table expression whose rows go by v, with the columns that are used above it."""
        made = ["plain", "plain", "public", "outer public", "public subquery"]
        if self._by_person:
            made += ["private", "outer private", "itself", *["free"] * 4]
        form = self._one_of(made)
        join = {
            "free": self._freely_joined() if form == "free" else "",
            "plain": "",
            "public": f" JOIN places p ON v.s = p.s{self._further()}",
            "outer public": " LEFT JOIN places p ON v.s = p.s",
            "public subquery": f" JOIN ({_LARGEST}) p ON v.s = p.s",
            "itself": " JOIN visits o ON o.who = v.who AND o.n <= v.n",
            "private": f" JOIN homes h ON h.who = v.who{self._further()}",
            "outer private": " LEFT JOIN homes h ON v.who = h.who",
        }[form]
        return f"{self._named(depth, set(_USED.findall(above + join)))} v{join}"

    def _freely_joined(self) -> str:
        """Two more private relations, under conditions that may tie them to nobody."""
        people, joins = ["v.who"], ""
        for alias in "oq":
            people.append(f"{alias}.who")
            relation = self._one_of(["visits", "homes", "twice", "twice"])
            if relation == "twice":
                people.append(f"{alias}.again")
                relation = self._hidden("SELECT m.who, m.who AS again FROM homes m")
            how = self._one_of(["", "", "", "LEFT ", "RIGHT "])
            ties = [*self._equality(people), *self._one_of([(), self._loose(people, alias)])]
            rule = self._one_of(["USING (who)", *[f"ON {' AND '.join(ties)}"] * 9])
            joins += f" {how}JOIN {relation} {alias} {rule}"
        return joins

    def _equality(self, people: Sequence[str]) -> tuple[str]:
        """An equality of two columns that hold people, of whichever relations."""
        one, two = self._draw.permutation(len(people))[:2]
        return (f"{people[one]} = {people[two]}",)

    def _loose(self, people: Sequence[str], alias: str) -> tuple[str]:
        """A condition that ties nobody to anybody, though it may name them."""
        one, two, three = (self._one_of(people) for _ in range(3))
        known = [f"{alias}.who = '{name}'" for name in "pqrp"]
        either = f"({one} = {two} OR {two} = {three})"
        return (self._one_of([*known, either, "v.n <= 2", f"COALESCE({one}, 'p') = {two}"]),)

    def _named(self, depth: int, used: set[str]) -> str:
        """The table itself, a subquery, or a name of WITH."""
        if depth == 0 or self._draw.random() < 0.4:
            return "visits"
        return self._hidden(self._subquery(depth - 1, used))

    def _hidden(self, body: str) -> str:
        """A query as a subquery or as a name of WITH."""
        if self._draw.random() < 0.5:
            return f"({body})"
        name = f"w{len(self._names)}"
        self._names[name] = body
        return name

    def _subquery(self, depth: int, used: set[str]) -> str:
        form = self._one_of(["rows", "rows", "distinct", "grouped"]) if self._by_person else "rows"
        if form == "grouped":
            figures = {name: sql for name, sql in self._figures().items() if name in used}
            keys = ", ".join(
                ["v.who", *(f"v.{name}" for name in NAMES if name in used - {*figures})]
            )
            shown = ", ".join([keys, *(f"{sql} AS {name}" for name, sql in figures.items())])
            rest = f"{self._where()} GROUP BY {keys}"
        else:
            shown, rest = self._shown(used), self._where()
        shown = f"DISTINCT {shown}" if form == "distinct" else shown
        return f"SELECT {shown} FROM {self._source(depth, shown + rest)}{rest}"

    def _shown(self, used: set[str]) -> str:
        """Columns under their names, some of them computed."""
        found = ["v.who"] if self._by_person else []
        for column in _COLUMNS:
            if column.name in used:
                computed = self._draw.random() < 0.3
                value = self._value(column.kind, depth=1) if computed else f"v.{column.name}"
                found.append(f"{value} AS {column.name}")
        return ", ".join(found) or "1 AS one"

    def _figures(self) -> dict[str, str]:
        """Columns that are made of all rows of a person, or of those with the same keys."""
        return {
            "i": f"LEAST(GREATEST(SUM({self._value(Kind.INTEGER, depth=1)}), -9), 9)",
            "j": f"MIN({self._value(Kind.INTEGER, depth=0)})",
            "n": f"LEAST(COUNT({self._one_of(['*', 'DISTINCT v.j', 'v.x'])}), 9)",
            "x": "AVG(v.x)",
            "y": "MAX(v.y)",
            "u": "LEAST(GREATEST(SUM(v.y), 0), 5)",
            "d": f"{self._one_of(['MIN', 'MAX'])}(v.d)",
            "e": "MAX(v.e)",
        }

    def _where(self) -> str:
        made = ["", "", "condition"]
        if self._by_person:
            made += ["in", "exists", "not exists", "scalar"]
        match self._one_of([*made, "public"]):
            case "":
                return ""
            case "public":
                return " WHERE v.s IN (SELECT s FROM places WHERE k > 1)"
            case "in":
                return " WHERE v.who IN (SELECT who FROM homes WHERE k > 0)"
            case "exists":
                return " WHERE EXISTS (SELECT 1 FROM homes q WHERE q.who = v.who AND q.k < 2)"
            case "not exists":
                return " WHERE NOT EXISTS (SELECT 1 FROM homes q WHERE q.who = v.who)"
            case "scalar":
                function = self._one_of(["AVG", "MAX", "COUNT"])
                inner = f"SELECT {function}(q.j) FROM visits q WHERE q.who = v.who"
                return f" WHERE v.i >= ({inner})"
        return f" WHERE {self._value(Kind.BOOLEAN, depth=2)}"

    def _further(self) -> str:
        return self._one_of(["", " AND v.n < 3", f" AND ({self._value(Kind.BOOLEAN, depth=1)})"])

    def _groups(self) -> str:
        count = self._one_of([0, 1, 1, 2])
        if count == 0:
            return ""
        kinds = (Kind.INTEGER, Kind.TEXT, Kind.DATE, Kind.BOOLEAN)
        keys = [
            self._value(self._one_of(kinds), depth=self._one_of([0, 1, 2])) for _ in range(count)
        ]
        listed = ", ".join(keys)
        sets = f"GROUPING SETS (({listed}), ())"
        return " GROUP BY " + self._one_of(
            [listed, listed, f"ROLLUP ({listed})", f"CUBE ({listed})", sets]
        )

    def _aggregate(self) -> str:
        kind = self._one_of([Kind.INTEGER, Kind.INTEGER, Kind.REAL])
        value = self._value(kind, depth=self._one_of([0, 1, 2]))
        if self._draw.random() < 0.5:
            value = f"LEAST(GREATEST({value}, -9), 9)"
        any_kind = self._value(self._one_of(tuple(LETTERS)), depth=1)
        made = [
            "COUNT(*)", f"COUNT({any_kind})", f"COUNT(DISTINCT {any_kind})", f"SUM({value})",
            f"AVG({value})", f"VARIANCE({value})", f"STDDEV({value})", f"MEDIAN({value})",
            "SUM(v.i * 100000000000)",
            f"QUANTILE({value}, 0.9)", f"MIN({value})", f"MAX({value})",
            f"PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {value})",
            f"MEDIAN({self._value(Kind.DATE, depth=1)})",
            f"SUM({value}) FILTER (WHERE {self._value(Kind.BOOLEAN, depth=1)})",
            f"COUNT_IF({self._value(Kind.BOOLEAN, depth=2)})",
        ]  # fmt: skip
        return self._one_of([*made, "COUNT(DISTINCT v.who)"] if self._by_person else made)

    def _value(self, kind: Kind, *, depth: int) -> str:
        return self._expressions.draw(self._draw, kind, of="v", depth=depth)

    def _one_of(self, choices: Sequence[C]) -> C:
        return choices[int(self._draw.integers(len(choices)))]


@cache
def _expressions() -> Expressions:
    visits = declared_table("visits", catalogue(Rows())["visits"], "r0")
    return Expressions(RowScope((("v", visits),)))
