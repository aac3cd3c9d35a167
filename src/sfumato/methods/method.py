"""The one contract of a differentially private method, and the plan that the gatekeeper charges.

A *method* is a frozen object that states its cost and the forecast of its error from public facts,
and then reads rows and adds noise. A *plan* is a method with its request: everything that the
gatekeeper needs to charge it, to find a stored answer to it, and to run it. Families of methods
(publish, learn, synth, query, programs, stream) supply only what differs.

Private texts are cut here, for every family and engine: a method reads as many characters as
`Column.characters` says. What one person's texts cost an engine is then known from the schema, a
public fact: 280 cells of 8 MB once filled its memory, so that one person decided whether a question
was answered. What is anonymized is never cut. Decision `private-texts`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from sfumato.data.engines.malformed_cells import TextLimit, limited
from sfumato.data.schema.column import USUAL_LENGTH, Kind
from sfumato.privacy.accounting.price import amounts_in_words
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
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True)
class Dataset:
    """A data set as a method sees it once its cost was charged."""

    name: str
    engine: Engine
    table: exp.Table
    schema: Schema
    unit: Unit


@dataclass(frozen=True)
class AnswerSize:
    """At most how large an answer is, from public facts alone.

    A method that knows it has it as `answer_size`.
    """

    groups: int
    """The declared groups, or cells, all of which are answered."""
    bytes: int
    work: int
    """The bytes by which work is weighed: of what is declared, and of all that may be observed."""


@dataclass(frozen=True)
class AnswerLimit:
    """How large one answer may be. Of observed groups no more are shown than it has room for."""

    groups: int
    bytes: int


def text_limits(columns: Iterable[Column], unit: Unit) -> dict[str, TextLimit | None]:
    """How many characters of each column are read; None for what is no text.

    Names of people are read whole or not at all, up to at least `USUAL_LENGTH` characters: a cut
    would make one person of two, who together move more than the unit allows to one.
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
    """Data sets of which queries see the declared columns, and of private texts the first part."""
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
    """Secret, drawn anew for each release and never shown: it keys the hash by which rows are kept.

    With one salt for two releases, the same rows of a person would be kept in both.
    """


Data = TypeVar("Data", contravariant=True)


class Method(Protocol[Data]):
    """What a kind makes of a request: a frozen object that reads rows in one step alone.

    Everything but `release` follows from public facts. `Data` is what it reads rows through: a
    counter of cells, the rows of a form, or a data set.
    """

    @property
    def event(self) -> Event:
        """What it costs."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The choices made, in JSON form: public, and part of the release's provenance."""
        ...

    @property
    def error(self) -> Mapping[str, Any]:
        """The forecast of the error, in JSON form, as far as it is known before spending."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The released tables, by name, without a row, so that paths can be checked early."""
        ...

    def release(self, data: Data, entropy: Entropy, /) -> Mapping[str, pa.Table]:
        """Read rows, bounded by the unit, add noise, and return the released tables."""
        ...


class KindRequest(ABC):
    """What is asked of a kind of method: a data set with its unit, at a price, and its columns.

    Nothing in it saw data. A family supplies the fields, the record and what its methods read.
    """

    dataset: str
    unit: Unit
    price: Price

    @property
    @abstractmethod
    def subject(self) -> str:
        """What it is about, for people: 'age, sex in people'."""

    @abstractmethod
    def record(self, method: Any) -> dict[str, Any]:
        """All that determines what is asked besides the choices of the method, in JSON form."""

    @abstractmethod
    def open(self, datasets: Mapping[str, Dataset], salt: str) -> Any:
        """What a method reads rows through."""

    def reads(self, method: Any) -> tuple[str, ...]:  # noqa: ARG002  # a graph may read two
        """The data sets that a method reads, all charged together."""
        return (self.dataset,)

    def rounded(
        self,
        tables: Mapping[str, pa.Table],
        error: Mapping[str, Any],  # noqa: ARG002  # what figures are rounded by
    ) -> Mapping[str, pa.Table]:
        """The tables as they leave; by default as the method made them."""
        return tables


class PlanForecast(Protocol):
    """What a plan would cost and how far off its answer would be, for programs and for people."""

    def to_json(self) -> dict[str, Any]:
        """The forecast as JSON-able data."""
        ...

    def text(self) -> str:
        """The forecast for people."""
        ...


class Plan(Shown, ABC):
    """A method with its request, ready to be charged and run. Nothing in it saw data.

    Every property is a public fact. A family supplies the data sets, the event, the parameters,
    the guarantee and `run`.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """The method's name, for the ledger and the release."""

    @property
    @abstractmethod
    def datasets(self) -> tuple[str, ...]:
        """The private data sets that it reads, all charged together."""

    @property
    def public(self) -> tuple[str, ...]:
        """The data sets about nobody that it reads too, which cost nothing."""
        return ()

    @property
    @abstractmethod
    def event(self) -> Event:
        """What it costs."""

    @property
    @abstractmethod
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form: the cache's key.

        `cost` is the price; `method` has the choices made, where there were any.
        """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What the release promises."""

    @property
    def error(self) -> Mapping[str, Any]:
        """The forecast of the error, in JSON form; empty where nothing is known beforehand."""
        return {}

    @property
    def answer_size(self) -> AnswerSize | None:
        """At most how large the answer is; None where public facts do not bound it."""
        return None

    @abstractmethod
    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Read, add noise, and return the release. Called once, after the charge is durable."""

    def explain(self) -> PlanForecast:
        """The cost, the choices and the forecast of the error; spends nothing."""
        return Forecast(self)

    def check_runnable(self, deadline_seconds: float | None) -> None:
        """Refuse, before anything is charged, what would fail or not end before the deadline."""

    def _promise(self, price: Price, unit: Unit, **facts: object) -> Guarantee:
        """A guarantee at the price, without a delta that is not used, with facts for readers."""
        return Guarantee(*price.charged(self.event).promise(unit, **facts))

    def _release(
        self, tables: Mapping[str, pa.Table], error: Mapping[str, Any] | None = None
    ) -> Release:
        """A release of today; its error is the forecast unless a better one is given."""
        provenance = Provenance(self.name, self.parameters, fingerprint="", made=today())
        return Release(tables, self.guarantee, provenance, self.error if error is None else error)

    def _card(self) -> Card:
        cost = amounts_in_words(self.parameters["cost"])
        line = f"{self.name} of {' and '.join(self.datasets)}, would cost {cost}"
        return Card(line, dict(self.error), notes=["Nothing was spent."])


@dataclass(frozen=True, repr=False)
class KindPlan(Plan):
    """The plan of one kind of publication, of model, or of made-up graph, paths or baskets."""

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
        """The data set, and others that the method reads."""
        return self.request.reads(self.method)

    @property
    def event(self) -> Event:
        """The method's."""
        return self.method.event

    @property
    def error(self) -> Mapping[str, Any]:
        """The method's."""
        return self.method.error

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """What the request asks, and the choices of the method."""
        return {**self.request.record(self.method), "method": dict(self.method.parameters)}

    @property
    def guarantee(self) -> Guarantee:
        """The price, for one person of the unit."""
        request = self.request
        return self._promise(request.price, request.unit, table=request.dataset)

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Let the method read rows through what its request opens."""
        data = self.request.open(datasets, random_key(entropy))
        tables = self.method.release(data, entropy)
        return self._release(self.request.rounded(tables, self.method.error))

    def _card(self) -> Card:
        cost = self.request.price.sentence()
        line = f"{self.kind} of {self.request.subject}, would cost {cost}"
        return Card(line, {**self.error, **self.method.parameters}, notes=["Nothing was spent."])


@dataclass(frozen=True, repr=False)
class Forecast(Shown):
    """What a plan would choose and how far off it would be, known before anything is spent."""

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


class Part(Protocol):
    """Some of the rows, by public facts, of which something is asked."""

    def of(self, plan: Plan) -> Plan:
        """What was planned for all rows, for these alone."""
        ...
