"""The kinds of publications by name. A new one is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.publish.publication import Publication
from sfumato.schema.names import quoted, suggestion

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from sfumato.publish.request import Method, Request

    Prepare = Callable[..., Method]

KINDS = {
    "auto": "auto",
    "histogram": "histogram",
    "sparse": "sparse",
    "fourier": "fourier",
    "marginals": "marginals",
    "continual": "continual",
    "dawa": "dawa",
    "mwem": "mwem",
    "quantiles": "quantiles",
    "sketch": "sketch",
    "quadtree": "quadtree",
    "tree": "tree.kind",
    "wavelet": "wavelet",
    "adaptive-grid": "spatial.adaptive_grid",
    "hybrid": "spatial.hybrid",
    "kdtree": "spatial.kdtree",
    "privtree": "spatial.privtree",
}
"""The module of each kind, whose `prepare(request, *, options...)` makes the method."""


def prepare(kind: str, request: Request, options: Mapping[str, object]) -> Publication:
    """Make a request ready to be charged and run; every choice is made from public facts."""
    if kind not in KINDS:
        raise ParameterError(
            "kind_unknown",
            f"There is no kind of publication {quoted(kind)}; {suggestion(kind, list(KINDS))}",
        )
    make: Prepare = import_module(f"sfumato.publish.{KINDS[kind]}").prepare
    known = [
        name
        for name, one in signature(make).parameters.items()
        if one.kind is Parameter.KEYWORD_ONLY
    ]
    for name in options:
        if name not in known:
            raise ParameterError(
                "option_unknown",
                f"A publication of kind {quoted(kind)} has no option {quoted(name)}; "
                + (suggestion(name, known) if known else "it has none."),
            )
    return Publication(kind, request, make(request, **options))
