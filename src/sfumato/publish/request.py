"""What is to be published, from public facts alone, and what a method must say and do for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from sfumato.privacy.sensitivity import of_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from sfumato.axes import Axis
    from sfumato.frequencies import Frequencies
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event
    from sfumato.privacy.price import Price
    from sfumato.privacy.sensitivity import Sensitivity
    from sfumato.privacy.units import Unit


@dataclass(frozen=True, kw_only=True)
class Request:
    """A data set's columns with their declared axes, at a price. Nothing in it saw data."""

    dataset: str
    axes: tuple[Axis, ...]
    unit: Unit
    price: Price
    boxes: NDArray[np.int64] | None = None
    """The ranges that matter, (queries, columns, 2), as inclusive codes; None if nobody said."""
    groups: Mapping[str, Mapping[object, Sequence[str | None]]] = field(default_factory=dict)
    """For nominal columns that have a hierarchy: the groups of each value, the smallest first."""
    postprocess: tuple[str, ...] = ()
    """What is done to noisy counts afterwards, by name; nothing by default."""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(axis.column for axis in self.axes)

    @property
    def sensitivity(self) -> Sensitivity:
        """How far one person moves any histogram of rows, all cells together."""
        return of_count(self.unit, grouped=True)


class Method(Protocol):
    """One way to publish, with all its parameters: what a kind makes of a request."""

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
        """How far the release will be off, in JSON form, known before anything is spent."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """The tables that it will release, by name, without a row: places can be checked early."""
        ...

    def release(self, counts: Frequencies, entropy: Entropy) -> Mapping[str, pa.Table]:
        """The noisy tables. `counts` are bounded by the unit and drop what is not declared."""
        ...


@runtime_checkable
class Ranged(Protocol):
    """A method whose release answers how many rows lie in boxes of codes, ends included."""

    def ranges(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Estimate the rows in each box from the released tables alone."""
        ...


@runtime_checkable
class Foreseen(Protocol):
    """A method that knows before anything is spent how far its ranges will be off."""

    def ranges_variance(self, boxes: NDArray[np.int64]) -> NDArray[np.float64]:
        """The variance of each estimate, exact or, where `error` says so, a bound."""
        ...


@runtime_checkable
class Uneven(Protocol):
    """A method whose release bounds what rows that lie unevenly within a count add to an error."""

    def ranges_unevenness(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The most that each estimate is off besides its noise, given the released counts."""
        ...


@runtime_checkable
class Judged(Protocol):
    """A method that knows from its release, better than before, how far its ranges are off."""

    def ranges_variance_of(
        self, tables: Mapping[str, pa.Table], boxes: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The variance that noise gives each estimate, given the released tables."""
        ...
