"""What a question sees of a data set whose people are asked for consent: those with a yes.

People who agreed are lent to the engine once, as they stood then; with every question comes who has
changed since, be it nobody. So what a question reads is the newest, and the work of it does not
tell whether somebody withdrew. Once thousands have changed they are lent anew; how many it takes is
drawn by chance, so that no one person's change is what tips it.

Decision 0354.
"""

from __future__ import annotations

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
from sfumato.vault.consent.person_ids import as_column

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sfumato.data.engines.base import Engine
    from sfumato.methods.method import Dataset
    from sfumato.privacy.ledger.chain import Position
    from sfumato.vault.consent.consent_record import ConsentStanding
    from sfumato.vault.consent.log import ConsentLog

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
        whose: exp.Expr = column(person)
        if self.kind is Kind.TEXT:
            # A collation may take two people for one, of whom one alone agreed.
            whose = as_spelled(whose, dialect)
        found = exp.In(this=whose, query=self.query.copy().subquery())
        return everything(table.copy()).where(found)


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
        shown, found = dict(datasets), dict[tuple[str, str], Agreed]()
        with quietly() as stack:
            for name, one in wanted.items():
                data, key = datasets[name], one.key
                if key not in found:
                    found[key] = stack.enter_context(self.agreed(one))
                    (versions if versions is not None else {})[key[0]] = found[key].version
                assert data.unit.column is not None
                rows = found[key].only(data.table, data.unit.column, self._engine.dialect)
                shown[name] = replace(data, table=stack.enter_context(self._engine.view(rows)))
            yield shown

    @contextmanager
    def agreed(self, consenting: Consenting) -> Iterator[Agreed]:
        """Who has agreed at this moment, for as long as a question is being answered."""
        with self._lock:
            base, now = self._newest(consenting)
            base.users += 1
        kind = consenting.register.kind
        try:
            changed = pa.table(
                {_PERSON: as_column(now.people, kind), _AGREED: pa.array(now.agreed, pa.bool_())}
            )
            with quietly() as stack:
                lent = stack.enter_context(self._engine.lend(changed))
                yield Agreed(_since(base.people, lent), kind, now.position.seq)
        finally:
            with self._lock:
                base.users -= 1
                base.close_if_unused()

    def _newest(self, consenting: Consenting) -> tuple[_Base, ConsentStanding]:
        """A base, and all that has changed since it; a new one where that is too much."""
        base = self._bases.get(consenting.key)
        now = consenting.standing(None if base is None else base.position)
        if base is None or now.whole or len(now.people) > base.most:
            if not now.whole:
                now = consenting.standing(None)
            if base is not None:
                base.retired = True
                base.close_if_unused()
            people = pa.table({_PERSON: as_column(now.people, consenting.register.kind)})
            stack = ExitStack()
            base = _Base(now.position, stack.enter_context(self._engine.lend(people)), stack)
            self._bases[consenting.key] = base
            now = consenting.standing(base.position)
        return base, now

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
    person, now = exp.column(_PERSON, "b", quoted=True), exp.column(_PERSON, "c", quoted=True)
    same = person.copy().eq(now.copy())
    kept = exp.select(person).from_(before).join(after, on=same, join_type="left")
    stayed = kept.where(exp.Is(this=now, expression=exp.null()))
    came = exp.select(column(_PERSON)).from_(changed.copy()).where(column(_AGREED))
    return exp.union(stayed, came, distinct=False)
