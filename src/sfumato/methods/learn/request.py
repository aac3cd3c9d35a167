"""What is to be learnt, from public facts alone, and the kinds of models by name.

A kind is a module whose `prepare(request, **options)` makes a learner. A learner releases tables of
numbers made with noise; a model is read from them and from public facts (`model`), so that whoever
has the release has the model, and nothing else is ever kept of rows. Decision `models`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.data.schema.names import quoted
from sfumato.methods.kinds import kind_named
from sfumato.methods.learn.catalogue import KINDS
from sfumato.methods.method import KindPlan, KindRequest, Method, SaltedData

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.learn.model import Model
    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.price import Price


@dataclass(frozen=True, kw_only=True)
class LearningRequest(KindRequest):
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

    @property
    def subject(self) -> str:
        """The features and the data set."""
        return f"{', '.join(column.name for column in self.features)} in {self.dataset}"

    def record(self, method: Learner) -> dict[str, Any]:
        """The features, the target, what is declared of them, the price and the unit."""
        return {
            "features": [column.name for column in self.features],
            "target": None if self.target is None else self.target.name,
            "facts": dict(method.facts),
            "cost": self.price.to_record(),
            "unit": self.unit.sentence(),
        }

    def open(self, datasets: Mapping[str, Dataset], salt: str) -> SaltedData:
        """The data set: learners bound what they read by weights, or by the salt."""
        return SaltedData(datasets[self.dataset], salt)


class Learner(Method[SaltedData], Protocol):
    """A method whose tables a model is read from."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The public facts, in JSON form, that a model needs to read rows and its tables."""
        ...


@dataclass(frozen=True, repr=False)
class Learning(KindPlan):
    """The plan of a model."""

    request: LearningRequest
    method: Learner
    family: str = "learn"


def prepare(kind: str, request: LearningRequest, options: Mapping[str, object]) -> Learning:
    """Plan a model of a kind; every choice is made from public facts."""
    made = kind_named(KINDS, kind, "model").make(
        request, options, f"A model of kind {quoted(kind)}"
    )
    return Learning(kind, request, made)


def model_type(kind: str) -> type[Model]:
    """The class that reads the tables of a kind: the `MODEL` of its module."""
    found: type[Model] = kind_named(KINDS, kind, "model").module.MODEL
    return found
