"""What every differentially private method offers to the gatekeeper, and what it reads.

Private texts are cut in one place, for every family and engine: as many characters are read as
`Column.characters` says. What one person's texts cost an engine is then known from the schema, a
public fact: 280 cells of 8 MB once filled its memory, so that one person decided whether a question
was answered. What is anonymized is never cut. Decision 0501.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

from sfumato.data.engines.malformed_cells import TextLimit, limited
from sfumato.data.schema.column import USUAL_LENGTH, Kind
from sfumato.release.release import Guarantee

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from sqlglot import exp

    from sfumato.data.engines.base import Engine
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.price import Price
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Release


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
            limits[column.name] = TextLimit(max(column.characters, USUAL_LENGTH), whole=True)
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
