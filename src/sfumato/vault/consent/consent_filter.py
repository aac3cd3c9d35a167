"""The consent filter: queries see only people who agreed; and how people are written in the log.

The engine gets the list of people who agreed once (the base). Every query then adds the people who
have changed since, even if there are none. So a query sees the newest consent, and its running time
does not show whether somebody withdrew. After some thousand changes a new base is made; the
threshold is random, so that no single person's change can be seen to trigger it.

Decision `consent`.
"""

from __future__ import annotations

import re
import threading
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from secrets import randbelow
from typing import TYPE_CHECKING

import pyarrow as pa
from sqlglot import exp

from sfumato.data.engines.base import column, everything
from sfumato.data.engines.malformed_cells import as_spelled
from sfumato.data.schema.column import Kind
from sfumato.data.schema.names import quoted
from sfumato.data.schema.schema_file import load as load_schema
from sfumato.errors import ParameterError, SchemaError
from sfumato.vault.config import PrivateSet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.method import Dataset
    from sfumato.privacy.ledger.chain import Position
    from sfumato.vault.config import Config
    from sfumato.vault.consent.log import ConsentLog, ConsentStanding


_LONGEST = 1000
# One spelling for each number: "07" or "+7" would be a second person to a registry of texts.
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
# PostgreSQL stores no NUL, an export has one line for each person, UTF-8 has no lone surrogates.
_BROKEN = re.compile("[\0\r\n\ud800-\udfff]")
_LEAST, _MOST = -(2**63), 2**63 - 1


def person_kind(schema: Schema) -> Kind:
    """The kind of the unit's column. Only integers and texts identify people exactly."""
    assert schema.unit.column is not None
    kind = schema.column(schema.unit.column).kind
    if kind not in (Kind.INTEGER, Kind.TEXT):
        raise SchemaError(
            "person_id_invalid",
            f"Who agreed cannot be looked up by {quoted(schema.unit.column)}, which is {kind}: a "
            "registry knows people by an integer or a text. Name another column as the unit, or "
            "leave the purposes out.",
        )
    return kind


def person_kinds(config: Config, population: str) -> dict[str, Kind]:
    """The kind of the unit's column in each data set of a population that asks for consent."""
    kinds = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet) and held.purposes and held.population == population:
            schema = load_schema(config.folder / held.schema)
            kinds[name] = person_kind(replace(schema, unit=held.unit))
    return kinds


def check_person_kinds(kinds: Mapping[str, Kind]) -> Kind:
    """Return the one kind that all data sets of a population use; refuse two kinds."""
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{quoted(name)} by {kind}" for name, kind in kinds.items())
        raise SchemaError(
            "person_id_invalid",
            f"Data sets of one population tell people apart in two ways: {listed}. One registry "
            "holds for all of them, so declare the column with one kind in every schema.",
        )
    return next(iter(kinds.values()))


def fault_of(person: str, kind: Kind) -> str | None:
    """The mistake in how a person is written, or None. The text never quotes the person."""
    if kind is Kind.INTEGER:
        if _INTEGER.fullmatch(person) and _LEAST <= int(person) <= _MOST:
            return None
        return "the person must be a whole number as the data has it, such as 1042"
    if not 0 < len(person) <= _LONGEST or _BROKEN.search(person):
        return f"the person must be a text of 1 to {_LONGEST} characters, all on one line"
    return None


def written(person: object, kind: Kind) -> str:
    """A person in the form that the registry stores: a text."""
    # In Python True is an integer; as a person it is a mistake.
    if isinstance(person, int) and not isinstance(person, bool):
        person = str(person)
    fault = fault_of(person, kind) if isinstance(person, str) else "it must be a text or a number"
    if fault is not None:
        raise ParameterError("person_id_invalid", f"Cannot look this person up: {fault}.")
    assert isinstance(person, str)
    return person


def as_column(people: Sequence[str], kind: Kind) -> pa.Array:
    """People as a column that an engine can compare with the unit's column."""
    if kind is Kind.INTEGER:
        return pa.array(map(int, people), pa.int64(), size=len(people))
    return pa.array(people, pa.string())


_PERSON, _AGREED = "person", "agreed"
_FEWEST = 4096
"""Changes that every query carries before a new base is made; at random up to twice as many."""


@contextmanager
def quietly() -> Iterator[ExitStack]:
    """A stack of tables lent to an engine. Errors on return are ignored."""
    stack = ExitStack()
    try:
        yield stack
    finally:
        # Temporary tables of a lost connection are gone with it; the query has its answer already.
        with suppress(Exception):
            stack.close()


@dataclass(frozen=True)
class LazyRegistry:
    """The registry of a population, as queries on its data sets use it. The log opens lazily."""

    log: Callable[[], ConsentLog]
    population: str
    kind: Kind

    def check(self) -> None:
        """Refuse a registry that may lack withdrawals, before anything is charged."""
        self.log().check()


@dataclass(frozen=True)
class ConsentCondition:
    """The people that a query may see: those of a registry who agreed to a purpose."""

    register: LazyRegistry
    purpose: str

    @property
    def key(self) -> tuple[str, str]:
        """The key of a base: queries with the same key see the same people."""
        return self.register.population, self.purpose

    def standing(self, since: Position | None) -> ConsentStanding:
        """Everybody who agreed, or everybody who changed since a position."""
        return self.register.log().standing(self.register.population, self.purpose, since)


@dataclass(eq=False)
class _Base:
    """People who agreed at a position of the log, as a table in an engine, with its use count."""

    position: Position
    people: exp.Table
    stack: ExitStack
    # From the operating system's CSPRNG: the threshold must not be predictable.
    most: int = field(default_factory=lambda: _FEWEST + randbelow(_FEWEST))
    users: int = 0
    retired: bool = False

    def close_if_unused(self) -> None:
        """Drop the table once it is replaced and no query uses it."""
        if self.retired and not self.users:
            with suppress(Exception):  # the engine may be closed already
                self.stack.close()


@dataclass(frozen=True)
class AgreedPeople:
    """The people that one query may see, as a subquery of its engine."""

    query: exp.Query
    kind: Kind
    version: int

    def only(self, table: exp.Table, person: str, dialect: str) -> exp.Query:
        """Select the rows of those people from a table."""
        person_column: exp.Expr = column(person)
        if self.kind is Kind.TEXT:
            # Compare bytes: a collation could equate two people, only one of whom agreed.
            person_column = as_spelled(person_column, dialect)
        has_agreed = exp.In(this=person_column, query=self.query.copy().subquery())
        return everything(table.copy()).where(has_agreed)


class ConsentFilter:
    """The bases of one engine: lends it the people that its queries may see."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._bases: dict[tuple[str, str], _Base] = {}

    @contextmanager
    def restrict(
        self,
        datasets: Mapping[str, Dataset],
        conditions: Mapping[str, ConsentCondition],
        versions: dict[str, int] | None,
    ) -> Iterator[dict[str, Dataset]]:
        """Restrict data sets to people who gave the consent that each requires.

        Data sets of one population see the registry at the same position, so that a join never
        mixes two states. `versions` receives that position for each population.
        """
        shown, agreed = dict(datasets), dict[tuple[str, str], AgreedPeople]()
        with quietly() as stack:
            for name, condition in conditions.items():
                data, key = datasets[name], condition.key
                if key not in agreed:
                    agreed[key] = stack.enter_context(self.agreed_people(condition))
                    (versions if versions is not None else {})[key[0]] = agreed[key].version
                assert data.unit.column is not None
                rows = agreed[key].only(data.table, data.unit.column, self._engine.dialect)
                shown[name] = replace(data, table=stack.enter_context(self._engine.view(rows)))
            yield shown

    @contextmanager
    def agreed_people(self, condition: ConsentCondition) -> Iterator[AgreedPeople]:
        """The people who agree now, for as long as a query runs."""
        with self._lock:
            base, changes = self._newest(condition)
            base.users += 1
        kind = condition.register.kind
        try:
            # Also where it is empty: every query does the same joins.
            changed = pa.table(
                {
                    _PERSON: as_column(changes.people, kind),
                    _AGREED: pa.array(changes.agreed, pa.bool_()),
                }
            )
            with quietly() as stack:
                lent = stack.enter_context(self._engine.lend(changed))
                yield AgreedPeople(_since(base.people, lent), kind, changes.position.seq)
        finally:
            with self._lock:
                # A base that was replaced while this query ran is dropped by its last user.
                base.users -= 1
                base.close_if_unused()

    def _newest(self, condition: ConsentCondition) -> tuple[_Base, ConsentStanding]:
        """The base and all changes since; a new base if there is none or changes are too many."""
        base = self._bases.get(condition.key)
        standing = condition.standing(None if base is None else base.position)
        # Complete: the log no longer holds the position of the base, as after an acknowledged
        # loss.
        if base is None or standing.is_complete or len(standing.people) > base.most:
            if not standing.is_complete:
                standing = condition.standing(None)
            if base is not None:
                base.retired = True
                base.close_if_unused()
            people = pa.table({_PERSON: as_column(standing.people, condition.register.kind)})
            stack = ExitStack()
            base = _Base(standing.position, stack.enter_context(self._engine.lend(people)), stack)
            self._bases[condition.key] = base
            # Read again: somebody may have changed while the base was copied.
            standing = condition.standing(base.position)
        return base, standing

    def close(self) -> None:
        """Retire all bases; those in use are dropped when their queries end."""
        with self._lock:
            for base in self._bases.values():
                base.retired = True
                base.close_if_unused()
            self._bases.clear()


def _since(people: exp.Table, changed: exp.Table) -> exp.Query:
    """People of the base who have not changed since, and all who have changed to yes."""
    before, after = exp.alias_(people, "b", table=True), exp.alias_(changed, "c", table=True)
    person, changed_person = (
        exp.column(_PERSON, "b", quoted=True),
        exp.column(_PERSON, "c", quoted=True),
    )
    is_same_person = person.copy().eq(changed_person.copy())
    before_and_after = (
        exp.select(person).from_(before).join(after, on=is_same_person, join_type="left")
    )
    stayed = before_and_after.where(exp.Is(this=changed_person, expression=exp.null()))
    came = exp.select(column(_PERSON)).from_(changed.copy()).where(column(_AGREED))
    # UNION ALL: a person is in the base or among those who came, never in both, so nothing is
    # sorted.
    return exp.union(stayed, came, distinct=False)
