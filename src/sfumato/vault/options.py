"""Which options an algorithm takes, checked in one place for Python and the command line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.search import SEARCHES
from sfumato.errors import ParameterError
from sfumato.vault.rearranging import REARRANGEMENTS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.anonymize.criteria import Criterion


def check_options(
    algorithm: str, given: Mapping[str, object], criteria: Sequence[Criterion]
) -> None:
    """Refuse an unknown algorithm, and options that it would ignore; None was not given."""
    takes = {name: one.takes for name, one in SEARCHES.items()}
    takes |= {name: one.takes for name, one in REARRANGEMENTS.items()}
    if algorithm not in takes:
        raise ParameterError(
            "algorithm_unknown",
            f"Algorithm {algorithm!r} is not known; take one of {', '.join(takes)}.",
        )
    ignored = [
        name for name, value in given.items() if value is not None and name not in takes[algorithm]
    ]
    if ignored:
        others = [name for name, one in takes.items() if one.issuperset(ignored)]
        raise ParameterError(
            "option_not_of_algorithm",
            f"Algorithm {algorithm!r} does not take {' and '.join(map(_spelled, ignored))}; it "
            f"takes {', '.join(map(_spelled, sorted(takes[algorithm]))) or 'none'}. Drop it, or "
            f"take {', '.join(others) or 'another algorithm'}.",
        )
    compares = any(criterion.compares_population for criterion in criteria)
    if given.get("population") is not None and not compares:
        raise ParameterError(
            "option_not_of_algorithm",
            "A population is given, but no criterion looks at it. Drop it, or ask for k-map or "
            "delta-presence.",
        )


def _spelled(option: str) -> str:
    """An option as the command line spells it, which is near enough to Python's name."""
    return option.replace("_", "-")
