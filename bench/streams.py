"""Streams: how far off each method is at some steps, measured, beside what it states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.unit import Rows
from sfumato.methods.stream.catalogue import prepare
from sfumato.methods.stream.request import StreamRequest
from sfumato.privacy.accounting.price import price
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Iterator

LONG = 1024
PLACES = (1, 7, 64, 100, 511, 1000, 1023, 1024)
WAYS: dict[str, dict[str, Any]] = {
    "tree": {"method": "tree", "periods": LONG},
    "honaker": {"method": "honaker", "periods": LONG},
    "root": {"method": "root", "periods": LONG},
    "tree, no end": {"method": "tree"},
    "honaker, no end": {"method": "honaker"},
    "root, no end": {"method": "root"},
    "last 30": {"method": "auto", "window": 30},
    "last 30, root": {"method": "root", "periods": LONG, "window": 30},
}
COSTS: dict[str, dict[str, Any]] = {"epsilon 1": {"epsilon": 1}, "rho 1/2": {"rho": "1/2"}}


def rows() -> Iterator[dict[str, object]]:
    """Measured against stated, for every method, price and some steps."""
    for paid, cost in COSTS.items():
        for name, asked in WAYS.items():
            stated, measured = errors(asked, cost)
            for place in PLACES:
                yield {
                    "name": f"{paid}, {name}, step {place:,} of {LONG:,}",
                    "unit": "rows, rms",
                    "value": measured[place],
                    "peer": "stated",
                    "peer_value": stated[place],
                }


def errors(asked: dict[str, Any], cost: dict[str, Any]) -> tuple[dict[int, float], ...]:
    """What a method states of some steps, and the root mean square of many runs of it."""
    # A square root remembers all that was, so that fewer fit.
    runs = 60 if asked["method"] == "root" else 500
    more = {one: value for one, value in asked.items() if one != "method"}
    request = StreamRequest(unit=Rows(), price=price(**cost), cells=runs, **more)
    method, entropy = prepare(request, asked["method"]), SystemEntropy()
    series = np.arange(LONG) * 7 % 11
    truth = series.cumsum()
    if request.window is not None:
        truth[request.window :] -= truth[: -request.window].copy()
    state, stated, measured = method.begin(entropy), dict[int, float](), dict[int, float]()
    for place, came in enumerate(series.tolist(), start=1):
        state, told = method.step(state, np.full(runs, came), entropy)
        if place in PLACES:
            far = told.values.astype(np.float64) - truth[place - 1]
            stated[place], measured[place] = float(told.stddev[0]), float((far**2).mean() ** 0.5)
    return stated, measured


def table() -> str:
    """The same as Markdown, as it stands in the guide: stated, and measured in brackets."""
    lines = []
    for paid, cost in COSTS.items():
        lines += [f"| {paid}, step | " + " | ".join(map(str, PLACES)) + " |"]
        lines += ["|---|" + "--:|" * len(PLACES)]
        for name, asked in WAYS.items():
            stated, measured = errors(asked, cost)
            cells = [f"{stated[one]:.1f} ({measured[one]:.1f})" for one in PLACES]
            lines.append(f"| {name} | " + " | ".join(cells) + " |")
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(table())
