"""Multiplicative weights: learn a whole table from noisy answers to the queries it fails at."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.domain import Domain
from sfumato.methods.publish.mwem.method import Mwem
from sfumato.methods.publish.mwem.queries import MarginalQueries, ParityQueries, RangeQueries
from sfumato.methods.publish.postprocess import check
from sfumato.privacy.mechanisms.spending import spendings

if TYPE_CHECKING:
    from sfumato.methods.publish.mwem.queries import Queries
    from sfumato.methods.publish.request import Request

MAX_CELLS = 1 << 20
MAX_ITERATIONS = 1000
MAX_JUDGED = 1 << 14
DEFAULT_ITERATIONS = 10
CLASSES = ("ranges", "marginals", "parities")


def prepare(
    request: Request,
    *,
    iterations: object = None,
    queries: object = None,
    way: object = None,
    iterate: object = None,
    selection: object = None,
) -> Mwem:
    """Read the class of queries, how often to ask, which table to give and how to choose."""
    check(request.postprocess)
    domain = Domain(request.axes)
    sizes = tuple(axis.size for axis in request.axes)
    if prod(sizes) > MAX_CELLS:
        raise ParameterError(
            "problem_too_large",
            f"{' x '.join(request.columns)} has {prod(sizes):,} cells; multiplicative weights take "
            f"at most {MAX_CELLS:,}. Take fewer columns or a coarser step.",
        )
    query_class = _queries(request, sizes, queries, way)
    rounds = (
        DEFAULT_ITERATIONS
        if iterations is None
        else options.whole(iterations, "iterations", least=1, most=MAX_ITERATIONS)
    )
    iterate_name = options.choice(iterate or "last", "iterate", ("average", "last"))
    chosen = options.choice(
        selection or "exponential", "selection", ("exponential", "sparse-vector")
    )
    if chosen == "sparse-vector" and len(query_class) > MAX_JUDGED:
        raise ParameterError(
            "problem_too_large",
            f"There are {len(query_class):,} queries; the sparse vector judges at most "
            f"{MAX_JUDGED:,}. Take selection 'exponential' or give a smaller workload.",
        )
    candidates = [
        Mwem(request, domain, query_class, rounds, iterate_name, chosen, spending)
        for spending in spendings(request.price)
    ]
    return min(candidates, key=lambda candidate: candidate.noise.variance)


def _queries(request: Request, sizes: tuple[int, ...], queries: object, way: object) -> Queries:
    """The class of queries: the request's ranges if there are any, else all dyadic ones."""
    name = options.choice(queries or "ranges", "queries", CLASSES)
    if name == "ranges":
        if request.boxes is None:
            return RangeQueries.dyadic(sizes)
        if len(request.boxes):
            return RangeQueries(sizes, request.boxes)
        raise ParameterError("workload_invalid", "The workload has no ranges. Give at least one.")
    most = len(sizes) if name == "marginals" else ParityQueries(sizes, 1).digits
    at_most = min(2, most) if way is None else options.whole(way, "way", least=1, most=most)
    return MarginalQueries(sizes, at_most) if name == "marginals" else ParityQueries(sizes, at_most)
