"""The methods of streams, by name, and the best one of those that count."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError
from sfumato.methods.stream.running_counts import FACTORS, LARGEST_STATE, SEGMENTS, running_ways
from sfumato.methods.stream.window import window_ways

if TYPE_CHECKING:
    from sfumato.methods.stream.method import StreamMethod
    from sfumato.methods.stream.request import StreamRequest

AUTO = "auto"
# Other methods: the module of each and the function in it that makes one of a request.
KINDS = {
    "w-event": ("w_event", "prepare"),
    "histogram": ("histograms", "prepare"),
    "top": ("histograms", "prepare_top"),
}

METHODS = (AUTO, *FACTORS, *(f"{SEGMENTS}{factor}" for factor in FACTORS), *KINDS)

# So many steps of a stream without end are looked at when its method is chosen.
_LOOK_AHEAD = 1024


def prepare(request: StreamRequest, method: str = AUTO) -> StreamMethod:
    """The method of that name; by `auto` running counts or windows of the least mean variance."""
    if method in KINDS:
        # Imported here, because a running histogram chooses its counter from this catalogue.
        module, maker = KINDS[method]
        made: StreamMethod = getattr(import_module(f"sfumato.methods.stream.{module}"), maker)(
            request
        )
        return made
    if method not in METHODS:
        raise ParameterError(
            "choice_unknown",
            f"There is no method {quoted(method)} of streams; {suggestion(method, METHODS)}",
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
