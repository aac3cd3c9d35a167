"""What is counted of a parent and a child table, as queries in which each row has one person.

*Families*: one row for each person who has a row of the parent table, with the columns of one such
row, which a keyed hash draws where there are several, and with how many rows of the child table the
person has. *Members*: the rows of the child table, each with all of its family's row; rows of
people who have no row of the parent table are in none. Rows without a key are nobody's, and in
neither.

Both are joined on the person alone: what they hold of a person is a function of that person's own
rows, in both tables, and of the salt.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sqlglot import exp

from sfumato.data.counting.contribution import COUNT, PERSON, bound
from sfumato.data.engines.base import column as named
from sfumato.data.schema.column import Kind

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.unit import Entity

_KEY = "sf_key"
_TYPES = {Kind.INTEGER: "BIGINT", Kind.TEXT: "TEXT"}

KEY_KINDS = tuple(_TYPES)
"""The kinds of columns by which rows can be linked: both sides are compared in one type."""


@dataclass(frozen=True)
class LinkedTables:
    """The two tables in one engine, and the columns that are read of each.

    `seen` says under which names the columns of the parent stand in a child's rows, that with the
    number of children, `number`, among them.
    """

    engine: Engine
    parent: exp.Table
    child: exp.Table
    parent_unit: Entity
    child_unit: Entity
    parent_columns: Sequence[str]
    child_columns: Sequence[str]
    kind: Kind
    """That of the key, by which alone people are told apart."""
    number: str
    seen: Mapping[str, str]

    @contextmanager
    def opened(self, salt: str) -> Iterator[tuple[exp.Table, exp.Table]]:
        """The families and the members, for as long as they are counted."""
        with (
            self.engine.view(self.families(salt)) as families,
            self.engine.view(self.members(families)) as members,
        ):
            yield families, members

    def families(self, salt: str) -> exp.Select:
        """One row for each person: the parent's columns, and how many children there are."""
        person = self._person(self.parent_unit)
        keys = {f"{_KEY}_{place}": name for place, name in enumerate(self.parent_columns)}
        rows = exp.select(
            exp.alias_(person, PERSON),
            exp.alias_(person.copy(), _KEY),
            *(exp.alias_(named(name), key) for key, name in keys.items()),
        ).from_(self.parent.copy())
        once = bound(rows, self.parent_unit.bounded(1), (_KEY, *keys), salt)
        mine, theirs = exp.column(_KEY, table="sf_one"), exp.column(PERSON, table="sf_many")
        how_many = exp.Coalesce(
            this=exp.column(COUNT, table="sf_many"), expressions=[exp.convert(0)]
        )
        return (
            exp.select(
                exp.alias_(mine, self.parent_unit.column, quoted=True),
                *(
                    exp.alias_(exp.column(key, table="sf_one"), name, quoted=True)
                    for key, name in keys.items()
                ),
                exp.alias_(exp.cast(how_many, "BIGINT"), self.number, quoted=True),
            )
            .from_(once.subquery("sf_one"))
            .join(self._children().subquery("sf_many"), on=mine.copy().eq(theirs), join_type="left")
            .where(exp.column(COUNT, table="sf_one") > exp.convert(0))
        )

    def _person(self, unit: Entity) -> exp.Expr:
        return exp.cast(named(unit.column), _TYPES[self.kind])

    def _children(self) -> exp.Select:
        """How many rows of the child table each person has."""
        person = self._person(self.child_unit)
        return (
            exp.select(exp.alias_(person, PERSON), exp.alias_(exp.Count(this=exp.Star()), COUNT))
            .from_(self.child.copy())
            .group_by(person.copy())
        )

    def members(self, families: exp.Table) -> exp.Select:
        """The rows of the child table, each with its person's family."""
        person = self._person(self.child_unit)
        rows = exp.select(
            exp.alias_(person, PERSON),
            *(named(name) for name in self.child_columns),
        ).from_(self.child.copy())
        family = exp.column(self.parent_unit.column, table="sf_family", quoted=True)
        return (
            exp.select(
                exp.alias_(
                    exp.column(PERSON, table="sf_member"), self.child_unit.column, quoted=True
                ),
                *(_of("sf_member", name, name) for name in self.child_columns),
                *(_of("sf_family", name, seen) for name, seen in self.seen.items()),
            )
            .from_(rows.subquery("sf_member"))
            .join(
                exp.alias_(families.copy(), "sf_family", table=True),
                on=exp.column(PERSON, table="sf_member").eq(family),
            )
        )


def _of(table: str, name: str, called: str) -> exp.Expr:
    return exp.alias_(exp.column(name, table=table, quoted=True), called, quoted=True)
