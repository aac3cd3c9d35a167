"""Local mechanisms by name: frequency oracles, and mechanisms for other tasks.

Names have hyphens, as in the command; underscores are read too. Files of reports and sketches store
names with underscores, so older files stay readable.
"""

from __future__ import annotations

from importlib import import_module
from inspect import Parameter, signature
from typing import TYPE_CHECKING, Any, TypeVar

from sfumato import arguments
from sfumato.errors import ParameterError, SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.local.mechanism import LocalMechanism, Oracle

ORACLES: dict[str, tuple[str, str]] = {
    "warner": ("frequency_oracles", "Warner"),
    "k-ary": ("frequency_oracles", "KAry"),
    "grid": ("locations", "DistanceGrid"),
    "sue": ("frequency_oracles", "SUE"),
    "oue": ("frequency_oracles", "OUE"),
    "rappor": ("rappor", "Rappor"),
    "olh": ("frequency_oracles", "OLH"),
    "subset": ("frequency_oracles", "SubsetSelection"),
    "hadamard": ("frequency_oracles", "HadamardResponse"),
    "apple-cms": ("apple_sketches", "AppleCMS"),
    "apple-hcms": ("apple_sketches", "AppleHCMS"),
    "longitudinal": ("longitudinal", "Longitudinal"),
}
"""The module and the class of each frequency oracle."""

TASKS: dict[str, tuple[str, str]] = {
    "duchi": ("means", "Duchi"),
    "piecewise": ("means", "Piecewise"),
    "hybrid": ("means", "Hybrid"),
    "marginals": ("binary_marginals", "MarginalOracle"),
    "hierarchical": ("range_trees", "Hierarchical"),
    "haar": ("range_trees", "Haar"),
    "heavy-hitters": ("heavy_hitter_search", "HeavyHitters"),
    "planar-laplace": ("locations", "PlanarLaplace"),
}
"""The module and the class of each mechanism for another task."""

MEANS = ("hybrid", "piecewise", "duchi")
RANGES = ("hierarchical", "haar")

Name = TypeVar("Name")


def hyphened(name: Name) -> Name:
    """A name with hyphens, as in the tables above; other types pass unchanged."""
    return name.replace("_", "-") if isinstance(name, str) else name  # type: ignore[return-value]


def stored_name(name: str) -> str:
    """A name as files of reports and sketches spell it."""
    return name.replace("-", "_")


def make(name: str, domain: object, epsilon: Any, options: Mapping[str, Any]) -> Oracle:
    """Make an oracle by its name; `auto` chooses one and gives the reason in `why`."""
    name = hyphened(name)
    arguments.one_of(name, "The name of an oracle", (*ORACLES, "auto"))
    module, kind = ORACLES.get(name, ("frequency_oracles", "choose"))
    maker = getattr(import_module(f"sfumato.methods.local.{module}"), kind)
    asked = signature(maker).parameters
    known = set(asked) - {"domain", "epsilon"}
    for option in sorted(options.keys() - known):
        raise ParameterError(
            "option_unknown",
            f"The oracle {name!r} has no option {option!r}"
            + (f"; it has {', '.join(sorted(known))}." if known else " and takes none."),
        )
    for option in sorted(known - options.keys()):
        if asked[option].default is Parameter.empty:
            raise ParameterError(
                "parameter_missing",
                f"The oracle {name!r} needs the option {option!r}.",
            )
    oracle: Oracle = maker(domain, epsilon=epsilon, **options)
    return oracle


def from_json(record: object) -> LocalMechanism:
    """Make the mechanism that `to_json` described."""
    named = hyphened(record.get("mechanism")) if isinstance(record, dict) else None
    if isinstance(record, dict) and named in list(TASKS) and record.get("version") == 1:
        asked = {key: value for key, value in record.items() if key not in {"mechanism", "version"}}
        return make_task(named, asked)
    needed = {"mechanism", "version", "domain", "epsilon"}
    if not isinstance(record, dict) or not needed <= record.keys() or record["version"] != 1:
        raise SourceError(
            "file_malformed",
            "This does not describe an oracle of version 1: it needs mechanism, version, domain "
            "and epsilon, as `to_json` of an oracle writes them.",
        )
    options = {key: value for key, value in record.items() if key not in needed}
    return make(record["mechanism"], record["domain"], record["epsilon"], options)


def make_task(name: str, options: Mapping[str, Any]) -> LocalMechanism:
    """Make a mechanism for another task by its name; all its parameters are options."""
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
        raise ParameterError("parameter_missing", f"The mechanism {name!r} needs {option!r}.")
    mechanism: LocalMechanism = maker(**options)
    return mechanism
