"""The keyword arguments of queries, publications, syntheses and models, for type checkers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from numpy.typing import ArrayLike

    from sfumato.exact_numbers import Number


class QueryCost(TypedDict, total=False):
    """The cost of a query: an epsilon or a rho, a delta, and how columns share it."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    weights: Mapping[str, Number] | None


class QueryOptions(QueryCost, total=False):
    """The arguments of a query besides its SQL."""

    request_id: str | None


class SynthesisOptions(TypedDict, total=False):
    """The arguments of a synthesis."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    method: str
    rows: int | None
    columns: Sequence[str] | str | None
    quantiles: Sequence[str] | str
    weekdays: Sequence[str] | str
    target: str | None
    workload: Sequence[Sequence[str]] | str | Path | None
    child: str | None
    key: str | None
    form: str | None
    nodes: int | str | None
    people: str | None
    every: float
    cells: int
    hexagons: int
    trips: int
    steps: int


class ProgramOptions(TypedDict, total=False):
    """The arguments of a run besides the program, its output and its cost."""

    language: str | None
    blocks: int | None
    people: int | None
    repeats: int
    aggregate: str
    ranges: str
    helper: str | None
    columns: Sequence[str] | str | None
    seconds: Number


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
"""The kinds of publications, for completion in editors."""


class KindOptions(TypedDict, total=False):
    """The options of all kinds of publications, for editors and type checkers.

    The kinds declare them; a test compares the two.
    """

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


class PublishOptions(KindOptions, total=False):
    """The arguments of a publication besides its kind and columns."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    workload: ArrayLike | str | Path | None
    postprocess: Sequence[str] | str


class LearningOptions(TypedDict, total=False):
    """The options of all kinds of models."""

    norm: Number
    clusters: int
    components: int
    rounds: int
    solver: Literal["auto", "gradient", "newton"]
    class_weight: Literal["balanced"] | None
    size: int
    depth: int
    bins: int
    trees: int
    growth: str
    penalty: Number
    most: int
    k: int
    confidence: int
