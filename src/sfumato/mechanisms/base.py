"""What every mechanism says of itself, and the parameters that several of them read alike."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sfumato.errors import ParameterError
from sfumato.privacy.units import Relation

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.events import Event


class Norm(StrEnum):
    """How the change that one person makes to the input of a mechanism is measured."""

    L1 = "l1"
    L2 = "l2"
    MAXIMUM = "maximum"


EITHER = frozenset(Relation)


@dataclass(frozen=True)
class Traits:
    """What a planner reads: the neighbour relations it may be used for, and its norm.

    `norm` is None where the mechanism derives the effect of one person itself.
    """

    relations: frozenset[Relation]
    norm: Norm | None


class Mechanism(Protocol):
    """A step that turns private integers into something that may leave.

    Parameters are public facts, so the event (what it costs) and the error to expect (`bound`, with
    what else it needs to know) are known before any row is read.
    """

    traits: ClassVar[Traits]

    @property
    def event(self) -> Event:
        """What one sample costs."""
        ...

    def sample(self, values: Any, entropy: Entropy) -> Any:
        """Release something about private values, with randomness that was paid for."""
        ...


class AdditiveNoise(Mechanism, Protocol):
    """A mechanism that adds the same integer noise to each of its inputs."""

    @property
    def variance(self) -> float:
        """The variance of one answer, never below the true one."""
        ...

    @property
    def stddev(self) -> float:
        """The standard deviation of one answer."""
        ...

    def bound(self, beta: float) -> float:
        """Give an error of one answer that is passed with probability at most beta."""
        ...

    def steps(self, values: ArrayLike, entropy: Entropy) -> NDArray[Any]:
        """Add noise to integers and give integers."""
        ...


def store(mechanism: object, **values: object) -> None:
    """Set checked fields of a frozen dataclass while it is being made."""
    for name, value in values.items():
        object.__setattr__(mechanism, name, value)


def check_beta(beta: float) -> float:
    """Refuse what is no probability of failure."""
    if not (math.isfinite(beta) and 0 < beta < 1):
        raise ParameterError(
            "beta_out_of_range", f"beta must lie between 0 and 1, both excluded, not {beta!r}."
        )
    return beta


def whole(value: object, name: str, *, least: int) -> int:
    """Read a whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ParameterError(
            "parameter_out_of_range",
            f"{name} must be a whole number of at least {least}, not {value!r}.",
        )
    return value
