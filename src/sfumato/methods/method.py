"""The contract of a differentially private method, and the plan that the gatekeeper charges.

A *method* is a frozen object that states its cost and the forecast of its error from public facts,
and then reads rows and adds noise. A *plan* is a method with its request: the gatekeeper uses it to
charge the cost, to find a stored answer, and to run the method. Families of methods (publish,
learn, synth, query, programs, stream) supply only what differs.

Private texts are cut here, for every family and engine: a method reads at most
`Column.characters` of a text. *Attack*: 280 cells of 8 MB once filled the memory of an engine, so
that one person decided whether a query was answered. With the limit, the memory for one person's
texts follows from the schema, which is public. Anonymization never cuts texts. Decision
`private-texts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sfumato.data.engines.malformed_cells import TextLimit, limited
from sfumato.data.schema.column import USUAL_LENGTH, Kind
from sfumato.privacy.accounting.price import Price, amounts_in_words
from sfumato.privacy.accounting.purchase import purchase
from sfumato.privacy.noise.entropy import random_key
from sfumato.release.release import Guarantee, Provenance, Release, today
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    import pyarrow as pa
    from sqlglot import exp

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class Dataset:
    """A data set as a method reads it after its cost was charged."""

    name: str
    engine: Engine
    table: exp.Table
    schema: Schema
    unit: Unit


@dataclass(frozen=True)
class AnswerSize:
    """The largest size of an answer, from public facts; see `Plan.answer_size`."""

    groups: int
    """The number of declared groups or cells, all of which are released."""
    bytes: int
    work: int
    """The bytes that bound the work: of declared groups, and of all that may be observed."""


@dataclass(frozen=True)
class AnswerLimit:
    """The largest allowed answer. Observed groups beyond it are not released."""

    groups: int
    bytes: int


def text_limits(columns: Iterable[Column], unit: Unit) -> dict[str, TextLimit | None]:
    """The number of characters that are read of each column; None for other kinds than text.

    *Attack*: a cut could make one person of two names, whose rows together exceed the bound of one
    person. So names of people are never cut: longer ones than the limit (at least `USUAL_LENGTH`)
    are dropped.
    """
    limits: dict[str, TextLimit | None] = {}
    for column in columns:
        if column.kind is not Kind.TEXT:
            limits[column.name] = None
        elif column.name in unit.columns:
            limits[column.name] = TextLimit(max(column.characters, USUAL_LENGTH), drops_longer=True)
        else:
            limits[column.name] = TextLimit(column.characters)
    return limits


def with_short_texts(
    datasets: Mapping[str, Dataset], private: Collection[str]
) -> dict[str, Dataset]:
    """The same data sets, where queries of private ones read declared columns and cut texts."""
    return {
        name: replace(data, table=limited(data.table, text_limits(data.schema.columns, data.unit)))
        if name in private
        else data
        for name, data in datasets.items()
    }


@dataclass(frozen=True)
class SaltedData:
    """A data set as a method reads it, with the salt of one release."""

    data: Dataset
    salt: str
    """A secret, drawn anew for each release: the key of the hash that decides which rows are kept.

    With one salt for two releases, both would keep the same rows of a person.
    """


Data = TypeVar("Data", contravariant=True)


class Method(Protocol[Data]):
    """A method that a kind prepares for a request: a frozen object with a single private step.

    Everything except `release` follows from public facts. `Data` is the type that it reads rows
    from: a counter of cells, the rows of a form, or a data set.
    """

    @property
    def event(self) -> Event:
        """The privacy cost."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The public choices of the method, in JSON form: part of the release's provenance."""
        ...

    @property
    def error(self) -> Mapping[str, Any]:
        """The forecast of the error, in JSON form, as far as it is known in advance."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released tables by name, without rows, so that output paths can be checked early."""
        ...

    def release(self, data: Data, entropy: Entropy, /) -> Mapping[str, pa.Table]:
        """Read rows, bounded by the unit, add noise, and return the released tables."""
        ...


class KindRequest(ABC):
    """A request for a kind of method: a data set with its unit, a price, and further fields.

    It holds no private data. A family supplies the fields, the record, and how rows are read.
    """

    dataset: str
    unit: Unit
    price: Price

    @property
    @abstractmethod
    def subject(self) -> str:
        """The subject of the request, for people: 'age, sex in people'."""

    @abstractmethod
    def record(self, method: Any) -> dict[str, Any]:
        """All fields of the request that determine the answer, in JSON form."""

    @abstractmethod
    def open(self, datasets: Mapping[str, Dataset], salt: str) -> Any:
        """Open the object from which a method reads rows."""

    def reads(self, method: Any) -> tuple[str, ...]:  # noqa: ARG002  # a graph may read two
        """The data sets that a method reads; one charge covers all of them."""
        return (self.dataset,)

    def rounded(
        self,
        tables: Mapping[str, pa.Table],
        error: Mapping[str, Any],  # noqa: ARG002  # families round by it
    ) -> Mapping[str, pa.Table]:
        """The tables as they are released; by default unchanged."""
        return tables


class PlanForecast(Protocol):
    """The cost and the expected error of a plan, for programs and for people."""

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON-able data."""
        ...

    def text(self) -> str:
        """The forecast for people."""
        ...


class Plan(Shown, ABC):
    """A method with its request, ready to be charged and run. It holds no private data.

    Every property is public. A family supplies the data sets, the event, the parameters, the
    guarantee and `run`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The method's name, for the ledger and the release."""

    @property
    @abstractmethod
    def datasets(self) -> tuple[str, ...]:
        """The private data sets that it reads; one charge covers all of them."""

    @property
    def public(self) -> tuple[str, ...]:
        """The public data sets that it reads too, which cost nothing."""
        return ()

    @property
    @abstractmethod
    def event(self) -> Event:
        """The privacy cost."""

    @property
    def charged(self) -> Charged:
        """What the ledger charges: the event, with the pair that the price states where it has one.

        Methods calibrate their noise to the price, so the pair is proven; sums of prices hold.
        """
        cost = self.parameters.get("cost")
        return self.event if cost is None else purchase(Price.from_record(cost), self.event)

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines the answer, in canonical JSON form: the key of the cache.

        `cost` is the price; `method` has the choices of the method, if any.
        """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """The guarantee of the release."""

    @property
    def error(self) -> Mapping[str, Any]:
        """The forecast of the error, in JSON form; empty where nothing is known in advance."""
        return {}

    @property
    def answer_size(self) -> AnswerSize | None:
        """The largest size of the answer; None where public facts do not bound it."""
        return None

    @abstractmethod
    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Read rows, add noise, and return the release. Called once, after a durable charge."""

    def explain(self) -> PlanForecast:
        """The cost, the choices and the forecast of the error. Spends nothing."""
        return Forecast(self)

    def check_runnable(self, deadline_seconds: float | None) -> None:
        """Refuse a plan that would fail or miss the deadline, before it is charged."""

    def _promise(self, price: Price, unit: Unit, **facts: object) -> Guarantee:
        """The guarantee at the price, without an unused delta, with further facts for readers."""
        return Guarantee(*price.charged(self.event).promise(unit, **facts))

    def _release(
        self, tables: Mapping[str, pa.Table], error: Mapping[str, Any] | None = None
    ) -> Release:
        """A release made today; its error is the forecast unless another is given."""
        provenance = Provenance(self.name, self.parameters, fingerprint="", made=today())
        return Release(tables, self.guarantee, provenance, self.error if error is None else error)

    def _card(self) -> Card:
        cost = amounts_in_words(self.parameters["cost"])
        line = f"{self.name} of {' and '.join(self.datasets)}, would cost {cost}"
        return Card(line, dict(self.error), notes=["Nothing was spent."])


@dataclass(frozen=True, repr=False)
class KindPlan(Plan):
    """The plan of a kind of publication, model, or synthetic graph, trajectory or itemset."""

    kind: str
    request: KindRequest
    method: Method[Any]
    family: str

    @property
    def name(self) -> str:
        """The family and the kind."""
        return f"{self.family} {self.kind}"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set of the request, and others that the method reads."""
        return self.request.reads(self.method)

    @property
    def event(self) -> Event:
        """The privacy cost of the method."""
        return self.method.event

    @property
    def error(self) -> Mapping[str, Any]:
        """The forecast of the error of the method."""
        return self.method.error

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """The record of the request, and the choices of the method."""
        return {**self.request.record(self.method), "method": dict(self.method.parameters)}

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee at the price, for one person of the unit."""
        request = self.request
        return self._promise(request.price, request.unit, table=request.dataset)

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Open the rows by the request, and let the method release from them."""
        data = self.request.open(datasets, random_key(entropy))
        tables = self.method.release(data, entropy)
        return self._release(self.request.rounded(tables, self.method.error))

    def _card(self) -> Card:
        cost = self.request.price.sentence()
        line = f"{self.kind} of {self.request.subject}, would cost {cost}"
        return Card(line, {**self.error, **self.method.parameters}, notes=["Nothing was spent."])


@dataclass(frozen=True, repr=False)
class Forecast(Shown):
    """The forecast of a plan: its choices and its expected error, before any budget is spent."""

    plan: Plan

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON-able data."""
        return {"choices": self.plan.parameters, "error": self.plan.error}

    def _card(self) -> Card:
        first, *notes = self.text().splitlines()
        return Card(first, {}, notes=notes)

    def text(self) -> str:
        """The forecast for people."""
        from sfumato.report.terminal import printable
        from sfumato.report.value_text import labelled

        parameters = self.plan.parameters
        lines = [f"Cost: {amounts_in_words(parameters.get('cost', {}))}. Nothing was spent."]
        lines += [f"Expected error, {labelled(name, of)}" for name, of in self.plan.error.items()]
        choices = parameters.get("method", {})
        lines += [f"Chosen, {labelled(name, choice)}" for name, choice in choices.items()]
        return "\n".join(str(printable(line)) for line in lines)


class RowSubset(Protocol):
    """A subset of the rows, defined by public facts, such as a period."""

    def of(self, plan: Plan) -> Plan:
        """The plan for the rows of the subset only."""
        ...
