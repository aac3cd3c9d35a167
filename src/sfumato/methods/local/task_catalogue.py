"""Local mechanisms for other questions than the share of each value: one line each."""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.local.mechanism import LocalMechanism

TASKS: dict[str, tuple[str, str]] = {
    "duchi": ("means", "Duchi"),
    "piecewise": ("means", "Piecewise"),
    "hybrid": ("means", "Hybrid"),
    "marginals": ("coefficients", "MarginalOracle"),
    "hierarchical": ("range_trees", "Hierarchical"),
    "haar": ("haar", "Haar"),
    "heavy-hitters": ("prefixes", "HeavyHitters"),
    "planar-laplace": ("planar", "PlanarLaplace"),
}
"""The module and the class of each."""

MEANS = ("hybrid", "piecewise", "duchi")
RANGES = ("hierarchical", "haar")


def make_task(name: str, options: Mapping[str, Any]) -> LocalMechanism:
    """A mechanism by its name; what its question needs are options as well."""
    arguments.one_of(name, "The name of a mechanism", tuple(TASKS))
    module, kind = TASKS[name]
    maker = getattr(import_module(f"sfumato.methods.local.{module}"), kind)
    known = signature(maker).parameters
    needed = {name for name, parameter in known.items() if parameter.default is Parameter.empty}
    for option in sorted(options.keys() - known.keys()):
        raise ParameterError(
            "option_unknown",
            f"The mechanism {name!r} has no option {option!r}; it has {', '.join(sorted(known))}.",
        )
    for option in sorted(needed - options.keys()):
        raise ParameterError("option_missing", f"The mechanism {name!r} needs {option!r}.")
    mechanism: LocalMechanism = maker(**options)
    return mechanism
