"""Marginals: noisy tables of several sets of columns at once, consistent with each other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.privacy.numbers import positive
from sfumato.privacy.units import Relation
from sfumato.publish import options
from sfumato.publish.marginals.lattice import Lattice
from sfumato.publish.marginals.method import Marginals
from sfumato.publish.marginals.strategy import residuals, tables
from sfumato.publish.marginals.wanted import wanted
from sfumato.publish.postprocess import check
from sfumato.publish.purse import purses

if TYPE_CHECKING:
    from sfumato.publish.marginals.strategy import Strategy
    from sfumato.publish.marginals.wanted import Set
    from sfumato.publish.purse import Purse
    from sfumato.publish.request import Request


def prepare(
    request: Request,
    *,
    way: object = None,
    of: object = None,
    weights: object = None,
    total: object = None,
) -> Marginals:
    """Choose what to measure, with which noise, for the least weighted sum of variances.

    `way` asks for all marginals of so many columns (2 if nobody says), `of` for a list of them;
    `weights`, one for each, say how much an error in their cells matters; `total` is the number
    of rows if it is public.
    """
    public = None if total is None else options.whole(total, "total", least=0, most=1 << 53)
    check(request.postprocess, total=public)
    sets = wanted(request.axes, way=way, of=of)
    # A column of one value changes no table, so it takes no part.
    columns = [place for place, axis in enumerate(request.axes) if axis.size > 1]
    lattice = Lattice(
        tuple(request.axes[place].size for place in columns),
        tuple(tuple(columns.index(one) for one in places if one in columns) for places in sets),
        _weights(weights, sets),
    )
    offers = [_offer(request, lattice, purse) for purse in purses(request.price)]
    least = min(offers, key=lambda offer: offer.total_variance)
    return Marginals(request, sets, tuple(columns), least, public)


def _offer(request: Request, lattice: Lattice, purse: Purse) -> Strategy:
    """The best way to spend a purse.

    Centring pays off for Gaussian noise alone, and not for one table, which is best measured as it
    is. Where people are replaced it does not either: two rows can be as far apart in the residual
    of a column as in its whole table.
    """
    added = request.unit.relation is Relation.ADD_REMOVE
    if purse.rho is not None and added and len(lattice.wanted) > 1:
        return residuals(lattice, purse, request.sensitivity)
    return tables(lattice, purse, request.sensitivity)


def _weights(given: object, sets: tuple[Set, ...]) -> tuple[float, ...]:
    if given is None:
        return (1.0,) * len(sets)
    parts = given.split(",") if isinstance(given, str) else given
    if not isinstance(parts, list | tuple) or len(parts) != len(sets):
        raise ParameterError(
            "weights_not_matching",
            f"weights must list {len(sets):,} numbers above 0, one for each marginal.",
        )
    return tuple(float(positive(part, "weights")) for part in parts)
