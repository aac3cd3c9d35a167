"""The filter that leaves out people without consent, and how a registry writes people.

People who agreed are lent to the engine once, as they stood then; every question adds who has
changed since, even if nobody has. So a question reads the newest consent, and its work does not
show whether somebody withdrew. Once thousands have changed they are lent anew; the number is drawn
by chance, so that no single change tips it.

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
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}", re.ASCII)
_BROKEN = re.compile("[\0\r\n\ud800-\udfff]")
_LEAST, _MOST = -(2**63), 2**63 - 1


def person_kind(schema: Schema) -> Kind:
    """The kind of the column that tells people apart; refused where it is not exact."""
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
    """The kinds by which the data sets of a population, where they ask for consent, tell people."""
    kinds = {}
    for name, held in config.datasets.items():
        if isinstance(held, PrivateSet) and held.purposes and held.population == population:
            schema = load_schema(config.folder / held.schema)
            kinds[name] = person_kind(replace(schema, unit=held.unit))
    return kinds


def check_person_kinds(kinds: Mapping[str, Kind]) -> Kind:
    """Refuse data sets of one population that write its people in two ways; return the one."""
    if len(set(kinds.values())) > 1:
        listed = ", ".join(f"{quoted(name)} by {kind}" for name, kind in kinds.items())
        raise SchemaError(
            "person_id_invalid",
            f"Data sets of one population tell people apart in two ways: {listed}. One registry "
            "holds for all of them, so declare the column with one kind in every schema.",
        )
    return next(iter(kinds.values()))


def fault_of(person: str, kind: Kind) -> str | None:
    """What is wrong with how a person is written, if anything; the person is not quoted."""
    if kind is Kind.INTEGER:
        if _INTEGER.fullmatch(person) and _LEAST <= int(person) <= _MOST:
            return None
        return "the person must be a whole number as the data has it, such as 1042"
    if not 0 < len(person) <= _LONGEST or _BROKEN.search(person):
        return f"the person must be a text of 1 to {_LONGEST} characters, all on one line"
    return None


def written(person: object, kind: Kind) -> str:
    """A person as the registry keeps it."""
    if isinstance(person, int) and not isinstance(person, bool):
        person = str(person)
    fault = fault_of(person, kind) if isinstance(person, str) else "it must be a text or a number"
    if fault is not None:
        raise ParameterError("person_id_invalid", f"Cannot look this person up: {fault}.")
    assert isinstance(person, str)
    return person


def as_column(people: Sequence[str], kind: Kind) -> pa.Array:
    """People as an engine compares them with their column."""
    if kind is Kind.INTEGER:
        return pa.array(map(int, people), pa.int64(), size=len(people))
    return pa.array(people, pa.string())


_PERSON, _AGREED = "person", "agreed"
_FEWEST = 4096
"""So many changes are carried with every question; up to twice as many, before a new base."""


@contextmanager
def quietly() -> Iterator[ExitStack]:
    """What an engine is lent for a while; what it does not give back goes with the engine."""
    stack = ExitStack()
    try:
        yield stack
    finally:
        with suppress(Exception):
            stack.close()


@dataclass(frozen=True)
class Register:
    """The registry of a population, as far as questions about its data sets need it."""

    log: Callable[[], ConsentLog]
    population: str
    kind: Kind

    def check(self) -> None:
        """Refuse what cannot be relied on, before anything is charged."""
        self.log().check()


@dataclass(frozen=True)
class Consenting:
    """The people that a question sees: of which registry, for what."""

    register: Register
    purpose: str

    @property
    def key(self) -> tuple[str, str]:
        """What two questions see alike."""
        return self.register.population, self.purpose

    def standing(self, since: Position | None) -> ConsentStanding:
        """Who agreed, or who changed since."""
        return self.register.log().standing(self.register.population, self.purpose, since)


@dataclass(eq=False)
class _Base:
    """People who agreed at a position, lent to an engine, and who uses them."""

    position: Position
    people: exp.Table
    stack: ExitStack
    most: int = field(default_factory=lambda: _FEWEST + randbelow(_FEWEST))
    users: int = 0
    retired: bool = False

    def close_if_unused(self) -> None:
        """Take the people back once nobody needs them."""
        if self.retired and not self.users:
            with suppress(Exception):  # of an engine that is gone nothing is left
                self.stack.close()


@dataclass(frozen=True)
class Agreed:
    """Those who may be seen by one question, in its engine."""

    query: exp.Query
    kind: Kind
    version: int

    def only(self, table: exp.Table, person: str, dialect: str) -> exp.Query:
        """The rows of those people."""
        person_column: exp.Expr = column(person)
        if self.kind is Kind.TEXT:
            # A collation may take two people for one, of whom one alone agreed.
            person_column = as_spelled(person_column, dialect)
        has_agreed = exp.In(this=person_column, query=self.query.copy().subquery())
        return everything(table.copy()).where(has_agreed)


class Lending:
    """The people that questions in one engine may see."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lock = threading.Lock()
        self._bases: dict[tuple[str, str], _Base] = {}

    @contextmanager
    def seen(
        self,
        datasets: Mapping[str, Dataset],
        wanted: Mapping[str, Consenting],
        versions: dict[str, int] | None,
    ) -> Iterator[dict[str, Dataset]]:
        """Data sets with nobody in them who is `wanted` for consent and has not given it.

        Data sets of one population are seen at one moment.
        """
        shown, agreed = dict(datasets), dict[tuple[str, str], Agreed]()
        with quietly() as stack:
            for name, consenting in wanted.items():
                data, key = datasets[name], consenting.key
                if key not in agreed:
                    agreed[key] = stack.enter_context(self.agreed(consenting))
                    (versions if versions is not None else {})[key[0]] = agreed[key].version
                assert data.unit.column is not None
                rows = agreed[key].only(data.table, data.unit.column, self._engine.dialect)
                shown[name] = replace(data, table=stack.enter_context(self._engine.view(rows)))
            yield shown

    @contextmanager
    def agreed(self, consenting: Consenting) -> Iterator[Agreed]:
        """Who has agreed at this moment, for as long as a question is being answered."""
        with self._lock:
            base, changes = self._newest(consenting)
            base.users += 1
        kind = consenting.register.kind
        try:
            changed = pa.table(
                {
                    _PERSON: as_column(changes.people, kind),
                    _AGREED: pa.array(changes.agreed, pa.bool_()),
                }
            )
            with quietly() as stack:
                lent = stack.enter_context(self._engine.lend(changed))
                yield Agreed(_since(base.people, lent), kind, changes.position.seq)
        finally:
            with self._lock:
                base.users -= 1
                base.close_if_unused()

    def _newest(self, consenting: Consenting) -> tuple[_Base, ConsentStanding]:
        """A base, and all that has changed since it; a new one where that is too much."""
        base = self._bases.get(consenting.key)
        standing = consenting.standing(None if base is None else base.position)
        if base is None or standing.whole or len(standing.people) > base.most:
            if not standing.whole:
                standing = consenting.standing(None)
            if base is not None:
                base.retired = True
                base.close_if_unused()
            people = pa.table({_PERSON: as_column(standing.people, consenting.register.kind)})
            stack = ExitStack()
            base = _Base(standing.position, stack.enter_context(self._engine.lend(people)), stack)
            self._bases[consenting.key] = base
            standing = consenting.standing(base.position)
        return base, standing

    def close(self) -> None:
        """Forget everybody; what is in use goes when its question is answered."""
        with self._lock:
            for base in self._bases.values():
                base.retired = True
                base.close_if_unused()
            self._bases.clear()


def _since(people: exp.Table, changed: exp.Table) -> exp.Query:
    """Who agreed then and has not changed, or has changed to a yes."""
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
    return exp.union(stayed, came, distinct=False)
