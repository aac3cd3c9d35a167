"""Releases over domains of up to 2^60 cells, nearly all of them empty, in time of the others.

Noise on every cell of such a domain could not even be written down. What is released is a choice
made after the noise: cells whose noisy count passes a threshold, or a sample of fixed size. Of the
empty cells, all alike, only those that are chosen are ever looked at; how many there are, which
they are and what their noise is, is drawn with exactly the law that noise on every cell has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.sparse.cells import NumberedCells
from sfumato.methods.publish.sparse.methods import PrioritySample, ThresholdFilter, least_threshold
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from sfumato.methods.publish.request import Request

# Noisy counts of at least a threshold, those as far from 0 either way, or a priority sample.
METHODS = ("threshold", "filter", "priority")

_SIZE = 1000
_LARGEST_SIZE = 1 << 22


def prepare(
    request: Request, *, method: object = None, size: object = None, threshold: object = None
) -> ThresholdFilter | PrioritySample:
    """Read the method and how much is to be released; `size` is the cells of a sample.

    With a threshold, `size` is how many empty cells are released on average, at most, from which
    the threshold follows unless it is given itself.
    """
    chosen = options.choice("threshold" if method is None else method, "method", METHODS)
    if request.postprocess:
        raise ParameterError(
            "option_not_applicable",
            "A sparse release has no post-processing, as most cells are not in it. Leave it out.",
        )
    if threshold is not None and (size is not None or chosen == "priority"):
        raise ParameterError(
            "options_conflict",
            "A sparse release takes either a threshold or a size, and a priority sample only a "
            "size. Leave one out.",
        )
    cells, noise = NumberedCells(request.axes), _noise(request)
    cell_count = _SIZE if size is None else options.whole(size, "size", least=1, most=_LARGEST_SIZE)
    if chosen == "priority":
        return PrioritySample(cells, noise, cell_count)
    sides = 2 if chosen == "filter" else 1
    if threshold is None:
        return ThresholdFilter(
            cells, noise, least_threshold(cells, noise, sides, cell_count), sides
        )
    least = least_threshold(cells, noise, sides, _LARGEST_SIZE)
    level = options.whole(threshold, "threshold", least=least, most=1 << 53)
    return ThresholdFilter(cells, noise, level, sides)


def _noise(request: Request) -> Geometric:
    """Laplace noise, whatever the price: what it gives empty cells can be drawn exactly."""
    epsilon = spendings(request.price)[0].pure_epsilon()
    return Geometric(epsilon=epsilon, l1_sensitivity=request.sensitivity.l1)
