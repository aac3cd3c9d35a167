"""The cells method x unit x relation x price x engine, and how the runs of a pair are coupled."""

from __future__ import annotations

import json
import time
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from tests.registry.coupling import Coupled, Result, couple
from tests.registry.engines import DUCKDB, TestedEngine
from tests.registry.methods import METHODS, PRICES, Method, Source
from tests.registry.tables import Layout, Pair, Relation

from sfumato.errors import SfumatoError
from sfumato.methods.query.sql.tables import PrivateRows
from sfumato.privacy.accounting.event_records import from_record
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.accounting.purchase import event_of
from sfumato.privacy.ledger.memory import memory_ledger
from sfumato.vault.answer import AnswerIndex
from sfumato.vault.config import OWNER
from sfumato.vault.datastore import IN_PROCESS, DataStore, Location
from sfumato.vault.gatekeeper import Gatekeeper
from sfumato.vault.private import Private
from sfumato.vault.session import Asker, Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    import pyarrow as pa

    from sfumato.privacy.accounting.events import Event

T = TypeVar("T")
RELATIONS = (Relation.ADD_REMOVE, Relation.REPLACE_ONE)
EXTREME_ROWS = 16
"""A person may have so many rows where cells are extreme, so that all of them count."""
_BUDGET = {"epsilon": 50, "delta": "0.001"}


@dataclass(frozen=True)
class Cell:
    """One method under one unit, relation and price."""

    method: Method
    unit: str
    relation: Relation
    price: str

    @property
    def title(self) -> str:
        relation = "add" if self.relation is Relation.ADD_REMOVE else "replace"
        return f"{self.method.title}, {self.unit}, {relation}, {self.price}"

    def declared(self, rows: int | None = None) -> Any:
        """The privacy unit."""
        return self.method.form.unit(self.unit, self.relation, rows)


@dataclass(frozen=True)
class Refused:
    """A cell that planning refuses from public facts, whatever the rows are."""

    code: str


def cells() -> Iterator[Cell]:
    """All cells: every method under every unit of its form, both relations, every price."""
    for method in METHODS:
        for unit in method.form.units:
            for relation in RELATIONS if unit != "node" else RELATIONS[:1]:
                for price in method.prices:
                    yield Cell(method, unit, relation, price)


SHARE = 0.25
"""The CPU seconds after which a fast test of a method begins no further cell: about a minute
for all methods."""


def within(seconds: float, cases: Iterable[T]) -> Iterator[T]:
    """The first case, and others until so much CPU time was used."""
    end = time.process_time() + seconds
    for number, case in enumerate(cases):
        if number and time.process_time() > end:
            return
        yield case


def _same(held: Any) -> Any:
    return held


@contextmanager
def protected(
    cell: Cell, unit: Any, tables: Mapping[str, pa.Table], engine: TestedEngine = DUCKDB
) -> Iterator[Source]:
    """The tables of one side under one budget, as `sf.protect` puts a single table."""
    schemas = cell.method.form.declared(unit)
    first = schemas[0].table
    ledger = memory_ledger()
    budget = Budget.for_epsilon_delta(**_BUDGET, maximum=Fraction(50))
    ledger.open_account(first, budget=budget)
    with ExitStack() as stack:
        catalogue, places = {}, {}
        for schema in schemas:
            ledger.attach(schema.table, account=first)
            held = stack.enter_context(closing(engine.open(tables[schema.table], schema)))
            catalogue[schema.table] = PrivateRows(schema, schema.unit, first)
            places[schema.table] = Location(IN_PROCESS, partial(_same, held), schema.unit)
        session = Session(
            catalogue, DataStore(places), Gatekeeper(ledger, AnswerIndex()), Fraction(50)
        )
        private = Private(session, lambda _: Asker(OWNER, (first,)), first)
        yield Source(private, tables, unit, ledger, engine.feed)


def check_charged(source: Source, event: Event) -> None:
    """The ledger holds this event, and nothing else: what losses are compared with was charged.

    The charge may be a purchase of the event; its pair is proven again as it is read.
    """
    entries = [json.loads(entry.body) for entry in source.ledger.entries()]
    charges = [from_record(entry["event"]) for entry in entries if entry["kind"] == "charge"]
    assert list(map(event_of, charges)) == [event], "the ledger holds another charge"
    account = source.ledger.account(source.private._dataset)
    assert account.spent == account.budget.charge(charges[0]), "the account spent something else"


def refusal(
    cell: Cell, unit: Any, layout: Layout | None = None, engine: TestedEngine = DUCKDB
) -> Refused | None:
    """Whether a cell is refused whatever the rows are: so for tables without a row.

    Planning refuses units and prices; opening a table refuses physical types.
    """
    form = cell.method.form
    types = {} if layout is None else layout.types(form)
    tables = {name: form.table(name, [], types) for name in form.rows}
    try:
        with protected(cell, unit, tables, engine) as source:
            cell.method.prepare(source, PRICES[cell.price])
    except SfumatoError as error:
        return Refused(error.code)
    return None


def run_pair(
    cell: Cell,
    pair: Pair,
    engine: TestedEngine = DUCKDB,
    *,
    rows: int | None = None,
    seed: int = 1,
) -> Coupled:
    """Couple the two runs of a pair of neighbours."""
    unit = cell.declared(rows)

    def side(tables: Mapping[str, pa.Table]) -> Callable[[], Result]:
        def run() -> Result:
            with protected(cell, unit, tables, engine) as source:
                prepared = cell.method.prepare(source, PRICES[cell.price])
                event, tables_released = cell.method.answer(source, prepared)
                check_charged(source, event)
                return event, tables_released

        return run

    return couple(side(pair.first), side(pair.second), cell.relation, seed=seed)


def pairs(cell: Cell) -> list[Pair]:
    """The neighbours of a cell."""
    return list(cell.method.form.pairs(cell.unit, cell.relation))


def extreme_pairs(cell: Cell, layout: Layout) -> list[Pair]:
    """The neighbours of a cell that hold extreme cells."""
    return list(cell.method.form.extreme_pairs(cell.unit, cell.relation, layout))
