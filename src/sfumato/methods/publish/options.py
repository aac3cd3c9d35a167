"""Reading the options of a method: Python callers give values, the command line gives texts."""

from __future__ import annotations

import re
from functools import partial
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


KindName = Literal[
    "auto",
    "above",
    "histogram",
    "sparse",
    "fourier",
    "marginals",
    "continual",
    "dawa",
    "mwem",
    "quantiles",
    "sketch",
    "quadtree",
    "tree",
    "wavelet",
    "adaptive-grid",
    "hybrid",
    "kdtree",
    "privtree",
    "triangles",
    "stars",
    "cliques",
    "degrees",
    "joint-degrees",
    "node-degrees",
    "items",
    "itemsets",
    "frequent",
    "search-log",
    "ratings",
    "trips",
    "visits",
    "lengths",
]
"""The kinds of publications by name, for whoever completes them."""


class KindOptions(TypedDict, total=False):
    """The options of all kinds of publications; each kind says which of them it takes."""

    at_most: int
    budget: object
    cells: object
    coefficients: int
    depth: int
    fanout: int
    grid: object
    height: int
    hierarchy: object
    hybrid: object
    iterate: object
    iterations: int
    k: object
    mechanism: str
    medians: object
    method: str
    most: object
    nodes: object
    noise: str
    of: object
    prune: object
    queries: object
    ranks: object
    root: object
    rows: object
    seed: object
    selection: object
    shape: object
    size: object
    threshold: object
    total: object
    trips: object
    visits: object
    way: object
    weights: object
    width: int


def whole(value: object, name: str, *, least: int, most: int) -> int:
    """Read a whole number between two bounds."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,18}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ParameterError(
            "option_not_whole",
            f"{name} must be a whole number from {least:,} to {most:,}, not "
            f"{arguments.shown(value)}.",
        )
    return value


def choice(value: object, name: str, allowed: Sequence[str]) -> str:
    """Read one of some words."""
    if value not in allowed:
        word = value if isinstance(value, str) else arguments.shown(value)
        raise ParameterError(
            "option_not_allowed",
            f"{name} cannot be {quoted(word)}; {suggestion(word, list(allowed))}",
        )
    return str(value)


def several(value: object, name: str) -> tuple[str, ...]:
    """Read a list of words; a text has commas between them."""
    parts = value.split(",") if isinstance(value, str) else value
    if not isinstance(parts, list | tuple) or not all(isinstance(one, str) for one in parts):
        raise ParameterError(
            "option_not_list", f"{name} must be a list of names, not {arguments.shown(value)}."
        )
    return tuple(one.strip() for one in parts)


def of_maker(
    make: Callable[..., Any], asked: Mapping[str, object], what: str
) -> Callable[..., Any]:
    """A maker with the options asked; refused where it takes others.

    The keywords of a maker are the options of its kind; `what` names the kind for people.
    """
    parameters = signature(make).parameters.items()
    known = [name for name, one in parameters if one.kind is Parameter.KEYWORD_ONLY]
    for name in asked:
        if name not in known:
            told = suggestion(name, known) if known else "it has none."
            raise ParameterError("option_unknown", f"{what} has no option {quoted(name)}; {told}")
    return partial(make, **asked)
