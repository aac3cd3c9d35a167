"""The plan of a synthesis of a parent and a child table.

The number of children is one more column of the parent's model, and what a child knows of its
parent are columns of the child's. Decisions `linked-tables` and `synthetic-rows`.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from sfumato.data.counting.contribution import COUNT, PERSON, bound
from sfumato.data.counting.frequencies import BoundedCounter
from sfumato.data.engines.base import column as named
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.unit import Rows
from sfumato.errors import ParameterError, option
from sfumato.methods.method import Plan
from sfumato.methods.synth.encode.constraints import possible_codes
from sfumato.methods.synth.encode.decoder import lost_constraints
from sfumato.methods.synth.encode.identifiers import key_room, room
from sfumato.methods.synth.forecast import LinkedForecast
from sfumato.methods.synth.linked_model import LinkedModel
from sfumato.methods.synth.request import (
    MODEL,
    MOST_HELD,
    ROWS,
    check_cells,
    declared_digest,
    forecast_of,
    most_rows,
    noise_error,
    set_options,
    with_room,
)
from sfumato.methods.synth.synthesis import Synthesis
from sfumato.methods.synth.synthesis_model import SynthesisModel, rows_to_draw
from sfumato.privacy.accounting.events import Composed
from sfumato.privacy.accounting.price import Price
from sfumato.privacy.mechanisms.spending import spendings
from sfumato.privacy.noise.entropy import random_key
from sfumato.release.release import Guarantee
from sfumato.report.display import Card

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.layout import FileLayout
    from sfumato.data.schema.unit import Entity
    from sfumato.methods.method import Dataset
    from sfumato.methods.synth.encode.encoding import Encoding, PaidBefore
    from sfumato.methods.synth.linked_model import Link
    from sfumato.methods.synth.request import ColumnSets
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Release


CHILD_ROWS, CHILD_MODEL = "child rows", "child model"
"""The tables of the release as it is stored, beside those of the parent."""

PARENT_SHARE = Fraction(1, 2)
"""The part of the charge that pays for the parent's model; the rest pays for the child's."""


@dataclass(frozen=True, kw_only=True)
class LinkedSide:
    """One of the two tables: what is measured of it, and how far a person moves that."""

    dataset: str
    encoding: Encoding
    """The plan of its model, which has columns that the table has not."""
    unit: Entity
    own: tuple[str, ...]
    """The columns of the table itself that are drawn, in its order."""
    sets: ColumnSets = ()
    target: str | None = None
    """A column of its model that the others are to tell, for methods that choose by themselves."""

    @property
    def open(self) -> tuple[Column, ...]:
        """The columns of the table itself whose values have to be discovered."""
        return tuple(column for column in self.encoding.open if column.name in self.own)

    def paid(self, price: Price, method: str) -> tuple[PaidBefore, Synthesis]:
        """What is done for a part of the charge: what is found first, and what is measured."""
        before = self.encoding.paid(price, among=self.own)
        axes = self.encoding.declared_axes
        return before, Synthesis(axes=axes, unit=self.unit, price=before.remaining, method=method)


@dataclass(frozen=True, repr=False, kw_only=True)
class LinkedRequest(Plan):
    """Synthesize two tables about the same people, one row a person in the first of them.

    *Guarantee*: the price in full, for both tables together: fixed stages of it are spent on each,
    one after the other, whatever the first tells; the stages add up. Keys and rows are drawn from
    what was measured alone.
    *Sensitivity*: neighbours differ in one person, with all rows that the person has in both
    tables. What is counted of the parent is `families`, where a person has one row or none,
    whatever the number of children, which is clamped to the declared bound: so any table of it
    moves by 1 in L1 and L2. What is counted of the child are `members`, all of the person's own,
    of which no more than the unit's `max_rows` are kept: so any table of them moves by that many.
    Rows of other people do not move at all: families and members are joined on the person alone,
    and what is kept of a person depends on that person's rows and the salt. Under replace-one a
    person leaves and another one enters, as everywhere.
    *Error*: of every measured table known from the logs; of how children of one parent resemble
    each other, beyond what their parent's columns tell, nothing is measured.
    *Edges*: rows without a key are not measured. Rows of the child whose key has no row in the
    parent are not counted, but values are discovered and ends of bins found among them too. Of
    several rows of the parent with one key one is counted. A parent without children counts with
    the number 0. Of more children than the bound so many are drawn as it says.
    """

    parent: LinkedSide
    child: LinkedSide
    link: Link
    price: Price
    method: str = "auto"
    rows: int | None = None

    name = "synthesize"

    def __post_init__(self) -> None:
        key = self.parent.encoding.schema.column(self.link.parent_key)
        rooms = (room(key), key_room(self.parent.encoding), most_rows(self._assumed[0]))
        most = min(limit for limit in rooms if limit is not None)
        if self.rows is not None and not 1 <= self.rows <= most:
            raise ParameterError(
                "parameter_out_of_range",
                f"{option('rows')} must be from 1 to {most:,}, not {self.rows:,}: so many keys and "
                f"rows of {quoted(self.parent.dataset)} there can be.",
                parameter="rows",
                given=self.rows,
            )
        for _, synthesis in self.stages:  # what cannot be measured is refused before the charge
            _ = synthesis.event
        for side in self._sides:
            check_cells(side.encoding.declared_axes, side.sets)

    def _card(self) -> Card:
        line = f"synthesis of {' and '.join(self.datasets)}, would cost {self.price.sentence()}"
        return Card(line, {"Method": self.method}, notes=self.explain().text().splitlines())

    @property
    def _sides(self) -> tuple[LinkedSide, LinkedSide]:
        return self.parent, self.child

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads, charged together."""
        return tuple(side.dataset for side in self._sides)

    @property
    def columns(self) -> dict[str, tuple[Column, ...]]:
        """The columns that are drawn, by table."""
        return {
            side.dataset: tuple(
                column for column in side.encoding.output_columns if column.name in side.own
            )
            for side in self._sides
        }

    @property
    def layouts(self) -> dict[str, FileLayout]:
        """How a file of each table is written, so that its schema reads it."""
        return {side.dataset: side.encoding.schema.layout for side in self._sides}

    @cached_property
    def _assumed(self) -> tuple[Encoding, ...]:
        """The plans as if nothing were discovered."""
        return tuple(
            side.encoding.discovered({column.name: () for column in side.encoding.open})
            for side in self._sides
        )

    @cached_property
    def _prices(self) -> tuple[Price, Price]:
        """What each table is measured by: the price becomes a rho once, and then is parted."""
        price, opened = self.price, [bool(side.open) for side in self._sides]
        keys = Fraction(0)
        if any(opened):
            # A rho needs no delta of its own; an epsilon needs one half to become a rho.
            keys = price.delta if price.rho is not None else price.delta / 2
        spending = spendings(price, conversion=price.delta - keys if keys else None)[-1]
        halves = [spending.scaled(PARENT_SHARE), spending.scaled(1 - PARENT_SHARE)]
        first, second = (
            Price(epsilon=half.epsilon, rho=half.rho, delta=keys * has / max(sum(opened), 1))
            for half, has in zip(halves, opened, strict=True)
        )
        return first, second

    @cached_property
    def stages(self) -> list[tuple[PaidBefore, Synthesis]]:
        """What is found and measured of the parent by its part of the charge; of the child."""
        # Columns alone, which `auto` may come to, would leave children unlike their parents.
        methods = (self.method, "aim" if self.method == "auto" else self.method)
        asked = zip(self._sides, self._prices, methods, strict=True)
        return [side.paid(price, method) for side, price, method in asked]

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        events: list[Event] = []
        for before, synthesis in self.stages:
            events += [*before.events, synthesis.event]
        return Composed(tuple(events))

    def explain(self) -> LinkedForecast:
        """How far off each method would be, told from public facts alone; spends nothing."""
        forecasts = (
            forecast_of(
                assumed, side.encoding.open, synthesis, self.price, side.sets, before.searched
            )
            for side, assumed, (before, synthesis) in zip(
                self._sides, self._assumed, self.stages, strict=True
            )
        )
        parent, child = forecasts
        return LinkedForecast(self.parent.dataset, self.child.dataset, parent, child)

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        targets = [side.target for side in self._sides]
        return {
            "columns": [f"{side.dataset}.{name}" for side in self._sides for name in side.own],
            "domain": [declared_digest(side.encoding) for side in self._sides],
            "cost": self.price.to_record(),
            "rows": self.rows,
            "workload": [[list(names) for names in side.sets] for side in self._sides],
            "unit": [side.unit.sentence() for side in self._sides],
            "child": self.child.dataset,
            "key": [self.link.parent_key, self.link.child_key],
            "method": {"method": self.method} | ({"target": targets} if any(targets) else {}),
        }

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Discover, measure, fit and draw. What is read of the tables are counts alone."""
        # Fresh for each release, and never shown: it keys the hash by which rows are kept.
        salt = random_key(entropy)
        plans: list[Encoding] = []
        known: tuple[dict[str, Any], ...] = {}, {}  # values, and ends of bins
        for side, (before, _) in zip(self._sides, self.stages, strict=True):
            data = datasets[side.dataset]
            discovered = before.run(data.engine, data.table, salt, entropy)
            known = tuple({**old, **new} for old, new in zip(known, discovered, strict=True))
            plans.append(with_room(side.encoding.discovered(*known), side.sets))
            # The child's model has what was found of the parent under other names.
            known = tuple(
                {
                    seen: values_of[name]
                    for name, seen in self.link.seen.items()
                    if name in values_of
                }
                for values_of in known
            )
        tables = self._tables(datasets)
        with tables.opened(salt) as (families, members):
            # By construction a person has one row of the first.
            once = Rows(relation=self.parent.unit.relation)
            counters = [
                BoundedCounter(tables.engine, families, plans[0].axes, once, salt),
                BoundedCounter(tables.engine, members, plans[1].axes, self.child.unit, salt),
            ]
            models = [
                self._measured(index, plan, counter, entropy)
                for index, (plan, counter) in enumerate(zip(plans, counters, strict=True))
            ]
        model = LinkedModel(models[0], models[1], self.link)
        rows = min(rows_to_draw(models[0], self.rows), most_rows(plans[0]))
        parents, children = model.drawn(rows, entropy, most_children=most_rows(plans[1]))
        released = {
            ROWS: parents,
            CHILD_ROWS: children,
            MODEL: models[0].packed,
            CHILD_MODEL: models[1].packed,
        }
        error = {**noise_error(models[0].log), self.child.dataset: noise_error(models[1].log)}
        return self._release(released, error)

    def _measured(
        self, index: int, plan: Encoding, counter: BoundedCounter, entropy: Entropy
    ) -> SynthesisModel:
        """Measure one table by its part of the charge, and fit what was measured."""
        _, declared = self.stages[index]
        side = self._sides[index]
        options = set_options(self.method, plan, side.sets, side.target)
        possible = possible_codes(plan)
        synthesis = replace(declared, axes=plan.axes, options=options, possible=possible)
        log = synthesis.measure(counter.held(MOST_HELD), entropy)
        return SynthesisModel(plan, synthesis.fit(log), log)

    def _tables(self, datasets: Mapping[str, Dataset]) -> LinkedTables:
        parent, child = (datasets[side.dataset] for side in self._sides)
        engine: Engine = parent.engine
        tables: tuple[exp.Table, exp.Table] = (parent.table, child.table)
        key = self.parent.encoding.schema.column(self.link.parent_key)
        invented = {column.name for column in self.child.encoding.invented}
        return LinkedTables(
            engine,
            *tables,
            self.parent.unit,
            self.child.unit,
            [name for name in self.link.seen if name != self.link.number],
            [name for name in self.child.own if name not in invented],
            key.kind,
            self.link.number,
            self.link.seen,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        price, child = self.price.charged(self.event), self.child
        kind, _, facts = price.promise(child.unit, table=self.parent.dataset, child=child.dataset)
        rows = "1 row" if child.unit.max_rows == 1 else f"{child.unit.max_rows} rows"
        hides = (
            f"{child.unit.sentence().partition(',')[0]} in either table, counting as 1 row of "
            f"{self.parent.dataset!r} and at most {rows} of {child.dataset!r}."
        )
        notes = [note for side in self._sides for note in lost_constraints(side.encoding)]
        details = {**facts, "unit": hides} | ({"notes": notes} if notes else {})
        return Guarantee(kind, f"{price.sentence()}. {hides}", details)


# What is counted of a parent and a child table, as queries in which each row has one person.
#
# *Families*: one row for each person who has a row of the parent table, with the columns of one
# such row, which a keyed hash draws where there are several, and with how many rows of the child
# table the person has. *Members*: the rows of the child table, each with all of its family's row;
# rows of people who have no row of the parent table are in none. Rows without a key are nobody's,
# and in neither.
#
# Both are joined on the person alone: what they hold of a person is a function of that person's
# own rows, in both tables, and of the salt.

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
        keys = {f"{_KEY}_{number}": name for number, name in enumerate(self.parent_columns)}
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
