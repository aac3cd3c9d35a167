"""The costs, one registry line each; a report states them all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.anonymize.cost.base import Cost, PricedRelease, Separable
from sfumato.anonymize.cost.classes import AverageClassSize, CAvg, Discernability, Suppressed
from sfumato.anonymize.cost.columns import EntropyLoss, Loss, LossGeometric, Precision, ncp
from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Mapping

COSTS: dict[str, type[Cost]] = {
    cost.name: cost
    for cost in (
        Loss,
        LossGeometric,
        Discernability,
        AverageClassSize,
        CAvg,
        Precision,
        EntropyLoss,
        Suppressed,
    )
}


def named(name: str, weights: Mapping[str, float] | None = None) -> Cost:
    """The cost of a name, with a weight above 0 for each column that counts more or less."""
    if name not in COSTS:
        raise ParameterError(
            "cost_unknown", f"Cost {name!r} is not known; take one of {', '.join(COSTS)}."
        )
    if weights and not issubclass(COSTS[name], Separable):
        raise ParameterError(
            "cost_without_weights",
            f"Cost {name!r} looks at classes, not at columns, and takes no weights. Drop them, or "
            "take loss, loss-geometric, precision or entropy.",
        )
    wrong = [column for column, weight in (weights or {}).items() if not 0 < weight < float("inf")]
    if wrong:
        raise ParameterError(
            "weight_not_positive",
            f"The weight of column {wrong[0]!r} must be a finite number above 0.",
        )
    return COSTS[name](weights)


class Costs:
    """All costs, to be measured of one release after another."""

    def __init__(self, weights: Mapping[str, float] | None = None) -> None:
        self._costs = {name.replace("-", "_"): cost(weights) for name, cost in COSTS.items()}

    def measure(self, release: PricedRelease) -> dict[str, float]:
        """Every cost of a release, under its name with underscores."""
        return {name: cost.value(release) for name, cost in self._costs.items()}


__all__ = ["COSTS", "Cost", "Costs", "PricedRelease", "Separable", "named", "ncp"]
