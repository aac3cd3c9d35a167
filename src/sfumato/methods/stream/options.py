"""What methods of streams check alike: the options they take, and the counts of a period."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.arguments import shown
from sfumato.errors import ParameterError
from sfumato.privacy.mechanisms.base import integers

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from sfumato.methods.stream.request import StreamRequest


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
