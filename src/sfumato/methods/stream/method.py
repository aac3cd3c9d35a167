"""What a method over a stream offers: a cost for the whole of it, a state, and one step at a time.

A step sees the counts of its own period alone. Its entropy comes from a tape that belongs to the
stream and the step, so that a step that was killed and is run again draws the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sfumato.arguments import shown
from sfumato.errors import ParameterError
from sfumato.privacy.mechanisms.base import integers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.stream.request import StreamRequest
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.noise.entropy import Entropy


# What a stream remembers between steps: whole numbers, lists of them, and texts, as JSON has them.
#
# As secret as the data, unless the method says that it `may_be_seized`.
State = Mapping[str, Any]


@dataclass(frozen=True)
class StepFigures:
    """What one step tells."""

    values: NDArray[Any]
    """Whole numbers or floats, one for each cell."""
    stddev: FloatArray
    """How far off each of them is, from public facts alone."""
    note: str = ""


class StreamMethod(Protocol):
    """A method with all its parameters, ready to be charged and stepped. Nothing in it saw data."""

    name: ClassVar[str]
    may_be_seized: ClassVar[bool]
    """Whether the state is private by itself, so that whoever takes it learns no more."""

    @property
    def event(self) -> Event:
        """What the whole stream costs, from public facts, charged before the first step."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines what is asked, public, in canonical JSON form."""
        ...

    def variance(self, step: int) -> float | None:
        """Of a figure that a step tells; None where that depends on what will have come."""
        ...

    def begin(self, entropy: Entropy) -> State:
        """The state before the first step."""
        ...

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """Take the exact rows of this period, for each cell, and tell what the step tells."""
        ...


# What methods of streams check alike: the options they take, and the counts of a period.


def only(request: StreamRequest, method: str, *allowed: str) -> None:
    """Refuse options that a method does not take."""
    for name in request.options:
        if name not in allowed:
            takes = f"It takes {', '.join(allowed)}." if allowed else "It takes none."
            raise ParameterError(
                "option_unknown",
                f"The method {method!r} of streams takes no option {shown(name)}. {takes}",
            )


def of_cells(counts: ArrayLike, cells: int) -> NDArray[Any]:
    """The counts of one period, of as many cells as the stream has."""
    private = integers(counts, "counts", dimensions=1)
    if len(private) != cells:
        raise ParameterError(
            "stream_invalid",
            f"This stream has {cells:,} cells, but counts of {len(private):,} were given. Give "
            "one count for each cell.",
        )
    return private
