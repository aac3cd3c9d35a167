"""The methods of streams by name, and the choice of the best counter."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods.stream.running_counts import FACTORS, LARGEST_STATE, SEGMENTS, running_ways
from sfumato.methods.stream.window import window_ways

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.stream.method import StreamMethod
    from sfumato.methods.stream.request import StreamRequest

AUTO = "auto"
# Further methods: the module of each, and its function that prepares one for a request.
KINDS = {
    "w-event": ("w_event", "prepare"),
    "histogram": ("histograms", "prepare"),
    "top": ("histograms", "prepare_top"),
}

METHODS = (AUTO, *FACTORS, *(f"{SEGMENTS}{factor}" for factor in FACTORS), *KINDS)

# The method of a stream without end is chosen by the error of so many first steps.
_LOOK_AHEAD = 1024


def prepare(request: StreamRequest, method: str = AUTO) -> StreamMethod:
    """The method of a name; `auto` takes the running counts or windows of least mean variance."""
    if method in KINDS:
        # Imported here, because a running histogram chooses its counter from this catalogue.
        module, function = KINDS[method]
        prepare_kind: Callable[[StreamRequest], StreamMethod]
        prepare_kind = getattr(import_module(f"sfumato.methods.stream.{module}"), function)
        return prepare_kind(request)
    if method not in METHODS:
        raise ParameterError(
            "choice_unknown",
            f"There is no method {quoted(method)} of streams; {suggestion(method, METHODS)}",
            parameter="method",
        )
    if request.options:
        listed = ", ".join(map(quoted, request.options))
        raise ParameterError(
            "option_unknown", f"The method {quoted(method)} takes no {listed}. Leave it out."
        )
    named = None if method == AUTO else method
    candidates: list[Any] = []
    candidates += (running_ways if request.window is None else window_ways)(request, named)
    if not candidates:
        raise ParameterError(
            "stream_invalid",
            f"The method {quoted(method)} has no window, needs to know how many periods there will "
            f"be, or would have to remember more than {LARGEST_STATE:,} figures. Take method "
            "'auto', fewer cells, or a shorter window.",
        )
    steps = request.periods or _LOOK_AHEAD
    steps_tried = range(1, steps + 1, max(1, steps // _LOOK_AHEAD))

    def mean(candidate: Any) -> float:
        return float(sum(candidate.variance(step) for step in steps_tried))

    best: StreamMethod = min(candidates, key=mean)
    return best
