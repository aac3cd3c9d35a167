"""What every differentially private method offers to the gatekeeper, whatever door it came by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.release.release import Guarantee

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sqlglot import exp

    from sfumato.engines.base import Engine
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.privacy.price import Price
    from sfumato.privacy.units import Unit
    from sfumato.release.release import Release
    from sfumato.schema.schema import Schema


def differential_privacy(price: Price, unit: Unit, **more: object) -> Guarantee:
    """What a release for a price promises to a person, with what else a reader must know."""
    hides = unit.sentence()
    parameters = {**price.to_record(), "unit": hides, **more}
    return Guarantee("differential privacy", f"{price.sentence()}. {hides}", parameters)


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
    """The bytes of what is declared, by which work is weighed."""


@dataclass(frozen=True)
class AnswerLimit:
    """How large one answer may be. Of observed groups no more are shown than it has room for."""

    groups: int
    bytes: int


class Prepared(Protocol):
    """A method with all its parameters, ready to be charged and run. Nothing in it saw data."""

    @property
    def name(self) -> str:
        """The method's name, for the ledger and the release."""
        ...

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads, all charged together."""
        ...

    @property
    def public(self) -> tuple[str, ...]:
        """The data sets about nobody that it reads too, which cost nothing."""
        ...

    @property
    def event(self) -> Event:
        """What it costs, from public facts alone."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, in canonical JSON form: the cache's key.

        `cost` is the price; `method` has the choices made, where there were any.
        """
        ...

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Read, add noise, and give the release. Called once, after the charge is durable."""
        ...


class Part(Protocol):
    """Some of the rows, by public facts, of which something is asked."""

    def of(self, prepared: Prepared) -> Prepared:
        """What was prepared for all rows, for these alone."""
        ...
