"""The contract of a stream method: a cost for the whole stream, a state, and steps.

A step sees only the counts of its own period. Its entropy comes from an entropy log that belongs to
the stream and the step, so that a step that is repeated after a crash draws the same words.
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


# The state of a stream between steps: whole numbers, lists of them, and texts, as in JSON. It is as
# secret as the data, unless the method declares that it `may_be_seized`.
State = Mapping[str, Any]


@dataclass(frozen=True)
class StepFigures:
    """The released figures of one step."""

    values: NDArray[Any]
    """Whole numbers or floats, one for each cell."""
    stddev: FloatArray
    """The standard deviation of each figure, from public facts."""
    note: str = ""


class StreamMethod(Protocol):
    """A method with all its parameters, ready to be charged and stepped. It holds no data."""

    name: ClassVar[str]
    may_be_seized: ClassVar[bool]
    """Whether the state itself is differentially private, so that a thief learns no more."""

    @property
    def event(self) -> Event:
        """The privacy cost of the whole stream, charged before the first step."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """All public parameters, in canonical JSON form."""
        ...

    def variance(self, step: int) -> float | None:
        """The variance of the figures of a step; None where it depends on the data."""
        ...

    def begin(self, entropy: Entropy) -> State:
        """The state before the first step."""
        ...

    def step(self, state: State, counts: IntArray, entropy: Entropy) -> tuple[State, StepFigures]:
        """Take the exact rows of each cell in this period; return the new state and the figures."""
        ...


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
    """The counts of one period as whole numbers; refuse another number of cells."""
    private = integers(counts, "counts", dimensions=1)
    if len(private) != cells:
        raise ParameterError(
            "stream_invalid",
            f"This stream has {cells:,} cells, but counts of {len(private):,} were given. Give "
            "one count for each cell.",
        )
    return private
