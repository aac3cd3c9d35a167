"""What every criterion is: two traits, a test of all classes at once, an absorbing consequence."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Protocol

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from sfumato.anonymize.classes import Classes, Original


class Criterion(Protocol):
    """A condition that every released class must meet.

    *union-closed*: the union of two passing classes passes. *absorbing*: a passing class united
    with any rows still passes; only then do suppressed rows become fewer as classes grow.

    Where the unit is a person, the people of a class are counted instead of its rows, and of
    sensitive values each person once for each different value of theirs, in class and original
    alike. One person may stand in two classes: then only what is absorbing is union-closed.
    """

    union_closed: ClassVar[bool] = True
    absorbing: ClassVar[bool] = False

    @property
    def column(self) -> str | None:
        """The sensitive column that is looked at, if any."""
        return None

    @property
    def compares_population(self) -> bool:
        """Whether a population table is needed."""
        return False

    @property
    def consequence(self) -> Criterion | None:
        """What every passing class also meets, and what is absorbing; None where nothing is."""
        return self if self.absorbing else None

    @property
    def crowd(self) -> int:
        """No class with fewer people than this can pass, however many rows they have."""
        return 1

    @property
    def smallest(self) -> int:
        """No class with fewer rows than this can pass."""
        return self.crowd

    def worded(self, original: Original | None) -> str:
        """The criterion as a guarantee names it, knowing what it is compared with."""
        del original
        return str(self)

    @abstractmethod
    def holds(self, classes: Classes) -> NDArray[np.bool_]:
        """Say of each class whether it passes."""

    @abstractmethod
    def __str__(self) -> str:
        """The criterion as it is named in a report."""


def whole(value: object, name: str) -> int:
    """Read a whole number of at least 1."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ParameterError(
            "criterion_not_whole",
            f"{name} must be a whole number of at least 1, not {value!r}.",
        )
    return value
