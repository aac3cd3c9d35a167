"""What is to be learnt, from public facts alone, and how the gatekeeper charges and runs it.

A kind is a module whose `prepare(request, **options)` makes a learner. What a learner releases are
tables of numbers made with noise; a model is read from them and from public facts (`model`), so
that whoever has the release has the model, and nothing else is ever kept of rows. Decision 0475.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.privacy.noise.entropy import secret
from sfumato.release.release import Guarantee, Provenance, Release, today
from sfumato.report.display import Card, Shown

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.noise.entropy import Entropy


@dataclass(frozen=True, kw_only=True)
class LearningRequest:
    """A data set's features and target at a price. Nothing in it saw data."""

    dataset: str
    schema: Schema
    features: tuple[Column, ...]
    target: Column | None
    unit: Unit
    price: Price
    rows: int | None = None
    """How many rows there are, where that is declared and so public."""

    def __post_init__(self) -> None:
        _ = self.unit.by_person  # which refuses rows of two people


class ModelLearner(Protocol):
    """One way to learn, with all its parameters: what a kind makes of a request."""

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
        """How far off it will be, in JSON form, as far as that is known before it is spent."""
        ...

    @property
    def facts(self) -> Mapping[str, Any]:
        """The public facts, in JSON form, that a model needs to read rows and its tables."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that it will release, by name, without a row."""
        ...

    def fit(self, data: Dataset, salt: str, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The released tables: the only step that reads rows, bounded by the unit."""
        ...


@dataclass(frozen=True, repr=False)
class Learning(Shown):
    """What the gatekeeper charges and runs. Nothing in it saw data."""

    kind: str
    request: LearningRequest
    learner: ModelLearner

    public = ()

    def _card(self) -> Card:
        price = self.request.price.sentence()
        line = f"{self.kind} learnt of {self.request.dataset}, would cost {price}"
        return Card(line, {**self.error, **self.learner.parameters}, notes=["Nothing was spent."])

    @property
    def name(self) -> str:
        """The method's name, for the ledger and the release."""
        return f"learn {self.kind}"

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data set it reads."""
        return (self.request.dataset,)

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        return self.learner.event

    @property
    def error(self) -> Mapping[str, Any]:
        """How far off it will be, as far as that is known before anything is spent."""
        return self.learner.error

    @cached_property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form."""
        request = self.request
        return {
            "features": [one.name for one in request.features],
            "target": None if request.target is None else request.target.name,
            "facts": dict(self.learner.facts),
            "cost": request.price.to_record(),
            "unit": request.unit.sentence(),
            "method": dict(self.learner.parameters),
        }

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Let the learner read the rows, bounded by the unit, and give what it learnt."""
        # Fresh for each release, and never shown: it keys the hash by which rows are kept.
        salt = secret(entropy)
        tables = self.learner.fit(datasets[self.request.dataset], salt, entropy)
        return Release(
            tables,
            self.guarantee,
            Provenance(self.name, self.parameters, fingerprint="", made=today()),
            self.error,
        )

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises."""
        price = self.request.price.charged(self.event)
        return Guarantee(*price.promise(self.request.unit, table=self.request.dataset))
