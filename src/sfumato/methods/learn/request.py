"""The request for a model, and the plan that the gatekeeper charges.

A kind is a module whose `prepare(request, **options)` makes a learner from public facts. A learner
releases tables of noisy numbers. A model (`model`) is read from these tables and from public facts
alone, so that a release contains the whole model and nothing else of the rows is kept. Decision
`learning`.
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
    """The features and the target of a data set, with a privacy budget: public facts alone."""

    dataset: str
    schema: Schema
    features: tuple[Column, ...]
    target: Column | None
    unit: Unit
    price: Price
    rows: int | None = None
    """The number of rows, if it is declared and therefore public."""

    def __post_init__(self) -> None:
        _ = self.unit.by_person  # raises for a unit in which a row belongs to two people

    @property
    def subject(self) -> str:
        """The features and the data set."""
        return f"{', '.join(column.name for column in self.features)} in {self.dataset}"

    def record(self, method: Learner) -> dict[str, Any]:
        """The features, the target, their declarations, the price and the unit."""
        return {
            "features": [column.name for column in self.features],
            "target": None if self.target is None else self.target.name,
            "facts": dict(method.facts),
            "cost": self.price.to_record(),
            "unit": self.unit.sentence(),
        }

    def open(self, datasets: Mapping[str, Dataset], salt: str) -> SaltedData:
        """Return the data set; learners bound contributions by row weights or by the salt."""
        return SaltedData(datasets[self.dataset], salt)


class Learner(Method[SaltedData], Protocol):
    """A method whose released tables contain a model."""

    @property
    def facts(self) -> Mapping[str, Any]:
        """The public facts, in JSON form, that the model needs to read its tables and new rows."""
        ...


@dataclass(frozen=True, repr=False)
class Learning(KindPlan):
    """The plan of a model."""

    request: LearningRequest
    method: Learner
    family: str = "learn"


def prepare(kind: str, request: LearningRequest, options: Mapping[str, object]) -> Learning:
    """Plan a model of a kind; every choice is made from public facts."""
    method = kind_named(KINDS, kind, "model").make(
        request, options, f"A model of kind {quoted(kind)}"
    )
    return Learning(kind, request, method)


def model_type(kind: str) -> type[Model]:
    """The class that reads the tables of a kind: the `MODEL` of its module."""
    model_class: type[Model] = kind_named(KINDS, kind, "model").module.MODEL
    return model_class
