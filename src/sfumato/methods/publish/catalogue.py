"""The registry of publications: every kind with its summary and options; it loads no method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.methods.kinds import Kind, option_field

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.exact_numbers import Number

    Names = Sequence[Sequence[str]] | str
    """Several sets of columns; as text such as age*sex,age*race."""


@dataclass(frozen=True, kw_only=True)
class AutoOptions:
    """The options of 'auto'."""

    total: int | None = option_field("The number of rows, where it is public.")


@dataclass(frozen=True, kw_only=True)
class HistogramOptions:
    """The options of 'histogram'."""

    total: int | None = option_field("The number of rows, where it is public.")
    noise: Literal["least", "truncated-geometric"] | None = option_field(
        "least: the least variance; truncated-geometric: every count is from 0 to `most`."
    )
    most: int | None = option_field("The largest count of a cell, for truncated noise.")


@dataclass(frozen=True, kw_only=True)
class MarginalsOptions:
    """The options of 'marginals'."""

    way: int | None = option_field("Release all marginals of so many columns. Usual: 2.")
    of: Names | None = option_field("The sets of columns to release, instead of `way`.")
    weights: Sequence[Number] | str | None = option_field(
        "How much an error in each marginal matters."
    )
    total: int | None = option_field("The number of rows, where it is public.")


@dataclass(frozen=True, kw_only=True)
class TreeOptions:
    """The options of 'tree'."""

    fanout: int | Literal["best"] | None = option_field(
        "Children of a block at most. Usual: the best."
    )
    budget: Literal["optimised", "uniform", "geometric"] | None = option_field(
        "How the levels share the price. Usual: optimised for the workload."
    )
    root: bool | Literal["yes", "no"] | None = option_field(
        "Whether the whole is counted too, with budget uniform or geometric. Usual: yes."
    )
    total: int | None = option_field("The number of rows, where it is public.")


@dataclass(frozen=True, kw_only=True)
class WaveletOptions:
    """The options of 'wavelet'."""

    budget: Literal["uniform", "optimised"] | None = option_field(
        "How the scales share the price. Usual: uniform."
    )
    hierarchy: Mapping[str, Mapping[object, Sequence[str | None]]] | None = option_field(
        "For nominal columns the groups of each value, smallest first; usually the schema's."
    )
    total: int | None = option_field("The number of rows, where it is public.")


@dataclass(frozen=True, kw_only=True)
class FourierOptions:
    """The options of 'fourier'."""

    coefficients: int | None = option_field("Of one column: how many waves are kept.")
    way: int | None = option_field("Of several columns: all marginals of so many columns.")
    of: Names | None = option_field("Of several columns: the sets of columns to release.")


@dataclass(frozen=True, kw_only=True)
class QuadtreeOptions:
    """The options of 'quadtree'."""

    height: int | None = option_field(
        "How many times the plane is quartered. Usual: to single cells."
    )
    budget: Literal["geometric", "uniform", "optimised"] | None = option_field(
        "How the levels share the price. Usual: geometric; with a workload optimised."
    )
    total: int | None = option_field("The number of rows, where it is public.")


@dataclass(frozen=True, kw_only=True)
class HybridOptions:
    """The options of 'hybrid'."""

    height: int | None = option_field("Levels below the root. Usual: down to single points.")
    medians: Number | None = option_field("The share of the price that finds medians.")
    prune: int | None = option_field(
        "A box with a smaller noisy count is not cut; 0 cuts every box."
    )


@dataclass(frozen=True, kw_only=True)
class KdTreeOptions(HybridOptions):
    """The options of 'kdtree'."""

    hybrid: int | None = option_field("How many levels are cut at medians before cuts are even.")


@dataclass(frozen=True, kw_only=True)
class PrivTreeOptions:
    """The options of 'privtree'."""

    shape: Number | None = option_field("The share of the price for the tree's shape. Usual: 1/2.")


@dataclass(frozen=True, kw_only=True)
class AdaptiveGridOptions:
    """The options of 'adaptive-grid'."""

    grid: int | None = option_field("Coarse cells along each side.")


@dataclass(frozen=True, kw_only=True)
class SparseOptions:
    """The options of 'sparse'."""

    method: Literal["threshold", "filter", "priority"] | None = option_field(
        "Large counts, counts far from 0 either way, or a priority sample. Usual: threshold."
    )
    size: int | None = option_field("Cells of a sample, or empty cells released on average.")
    threshold: int | None = option_field(
        "Release noisy counts of at least this, instead of `size`."
    )


@dataclass(frozen=True, kw_only=True)
class MwemOptions:
    """The options of 'mwem'."""

    iterations: int | None = option_field("How many queries are asked. Usual: 10.")
    queries: Literal["ranges", "marginals", "parities"] | None = option_field(
        "The queries to learn from. Usual: ranges."
    )
    way: int | None = option_field(
        "Columns of a marginal, or digits of a parity, at most. Usual: 2."
    )
    iterate: Literal["last", "average"] | None = option_field(
        "Which table is released. Usual: last."
    )
    selection: Literal["exponential", "sparse-vector"] | None = option_field(
        "How queries are chosen. Usual: exponential."
    )


@dataclass(frozen=True, kw_only=True)
class QuantilesOptions:
    """The options of 'quantiles'."""

    ranks: Sequence[Number] | str | None = option_field("The wanted ranks, from 0 to 1.")
    mechanism: Literal["exponential", "smooth"] | None = option_field(
        "Exponential choices, or noise on the median itself. Usual: exponential."
    )
    rows: int | None = option_field("The public number of rows, for mechanism smooth.")


@dataclass(frozen=True, kw_only=True)
class ContinualOptions:
    """The options of 'continual'."""

    method: Literal["tree", "root"] | None = option_field("The factor. Usual: the better one.")


@dataclass(frozen=True, kw_only=True)
class SketchOptions:
    """The options of 'sketch'."""

    width: int | None = option_field("Buckets in a line.")
    depth: int | None = option_field("Lines, each with a hash of its own.")
    seed: int | None = option_field("The public seed of the hashes. Usual: 0.")


@dataclass(frozen=True, kw_only=True)
class AboveOptions:
    """The options of 'above'."""

    threshold: int | None = option_field("A range with about as many rows, or more, is a hit.")
    at_most: int | None = option_field("How many hits are paid for. Usual: 1.")


@dataclass(frozen=True, kw_only=True)
class TrianglesOptions:
    """The options of 'triangles'."""

    mechanism: Literal["ladder", "smooth"] = option_field("How noise is calibrated.", "ladder")


@dataclass(frozen=True, kw_only=True)
class StarsOptions:
    """The options of 'stars'."""

    k: int = option_field("Edges of a star.", 2)


@dataclass(frozen=True, kw_only=True)
class CliquesOptions:
    """The options of 'cliques'."""

    k: int = option_field("Nodes of a clique.", 4)


@dataclass(frozen=True, kw_only=True)
class DegreesOptions:
    """The options of 'degrees'."""

    nodes: int | None = option_field("How many nodes the graph has; this number is public.")


@dataclass(frozen=True, kw_only=True)
class JointDegreesOptions:
    """The options of 'joint-degrees'."""

    most: int = option_field("The largest degree that is counted.", 20)


@dataclass(frozen=True, kw_only=True)
class ItemsetsOptions:
    """The options of 'itemsets'."""

    size: int = option_field("Items of a set.", 2)


@dataclass(frozen=True, kw_only=True)
class FrequentOptions:
    """The options of 'frequent'."""

    k: int = option_field("How many sets are released.", 50)
    size: int = option_field("Items of a set at most.", 4)


@dataclass(frozen=True, kw_only=True)
class TripsOptions:
    """The options of 'trips'."""

    cells: int = option_field("Cells along each side of the grid.", 4)
    trips: int = option_field("Paths of a person that count at most.", 1)


@dataclass(frozen=True, kw_only=True)
class VisitsOptions:
    """The options of 'visits'."""

    cells: int = option_field("Cells along each side of the grid.", 16)
    visits: int = option_field("Cells of a person that count at most.", 4)


@dataclass(frozen=True, kw_only=True)
class LengthsOptions:
    """The options of 'lengths'."""

    trips: int = option_field("Paths of a person that count at most.", 1)


# Help lists the kinds in this order.
KINDS: dict[str, Kind] = {
    "auto": Kind(
        "the best of histogram, tree, quadtree, wavelet for your ranges",
        "publish.auto",
        AutoOptions,
    ),
    "histogram": Kind(
        "a count of every combination of values", "publish.histogram", HistogramOptions
    ),
    "marginals": Kind(
        "counts by several sets of columns, consistent with each other",
        "publish.marginals",
        MarginalsOptions,
    ),
    "tree": Kind(
        "counts by nested ranges: good for any range of values", "publish.tree", TreeOptions
    ),
    "wavelet": Kind(
        "counts by differences of halves: good for long ranges", "publish.wavelet", WaveletOptions
    ),
    "fourier": Kind(
        "a smooth curve of one column; of several, whole counts", "publish.fourier", FourierOptions
    ),
    "quadtree": Kind(
        "a map: quarters, divided into quarters again",
        "publish.quadtree",
        QuadtreeOptions,
    ),
    "kdtree": Kind("a map: boxes cut at medians", "publish.kdtree", KdTreeOptions),
    "hybrid": Kind(
        "a map: medians first, then quarters",
        "publish.kdtree:prepare_hybrid",
        HybridOptions,
    ),
    "privtree": Kind(
        "a map: boxes divided where people are, to any depth",
        "publish.privtree",
        PrivTreeOptions,
    ),
    "adaptive-grid": Kind(
        "a map: a grid, finer where people are",
        "publish.adaptive_grid",
        AdaptiveGridOptions,
    ),
    "sparse": Kind(
        "only the large counts of very many combinations", "publish.sparse", SparseOptions
    ),
    "mwem": Kind(
        "a whole table, learned from the counts that it answers worst", "publish.mwem", MwemOptions
    ),
    "dawa": Kind("counts of one column, averaged where neighbours are alike", "publish.dawa"),
    "quantiles": Kind(
        "medians and other ranks of one column", "publish.quantiles", QuantilesOptions
    ),
    "continual": Kind("running counts, day by day", "publish.continual", ContinualOptions),
    "sketch": Kind(
        "a short summary from which any count can be estimated", "publish.sketch", SketchOptions
    ),
    "above": Kind(
        "which ranges hold more rows than a threshold", "publish.sparse_vector", AboveOptions
    ),
    "triangles": Kind(
        "of a graph: how many triangles it has",
        "graph.subgraphs:prepare_triangles",
        TrianglesOptions,
        "edges",
    ),
    "stars": Kind(
        "of a graph: pairs of ties that meet in a node, or k=3 of them",
        "graph.subgraphs:prepare_stars",
        StarsOptions,
        "edges",
    ),
    "cliques": Kind(
        "of a graph: how many sets of k nodes are all tied",
        "graph.subgraphs:prepare_cliques",
        CliquesOptions,
        "edges",
    ),
    "degrees": Kind(
        "of a graph: how many ties nodes have, sorted", "graph.degrees", DegreesOptions, "edges"
    ),
    "joint-degrees": Kind(
        "of a graph: how many ties join nodes of which degrees",
        "graph.degrees:prepare_joint_degrees",
        JointDegreesOptions,
        "edges",
    ),
    "node-degrees": Kind(
        "of a graph: how many people have how many ties; hides whole people",
        "graph.degrees:prepare_node_degrees",
        form="edges",
    ),
    "items": Kind("of itemsets: how many people have each item", "itemsets.counts", form="items"),
    "itemsets": Kind(
        "of itemsets: how many people have all of several items",
        "itemsets.counts:prepare_itemsets",
        ItemsetsOptions,
        "items",
    ),
    "frequent": Kind(
        "of itemsets: the items that many people have together",
        "itemsets.frequent",
        FrequentOptions,
        "items",
    ),
    "search-log": Kind(
        "of itemsets: what people searched for, and how often",
        "itemsets.counts:prepare_search_log",
        form="items",
    ),
    "ratings": Kind(
        "of itemsets: how many people rated each item, and how", "itemsets.ratings", form="items"
    ),
    "trips": Kind(
        "of trajectories: how many lead from each cell of a grid to each",
        "trajectory.counts:prepare_trips",
        TripsOptions,
        "points",
    ),
    "visits": Kind(
        "of trajectories: how many people were in each cell of a grid",
        "trajectory.counts:prepare_visits",
        VisitsOptions,
        "points",
    ),
    "lengths": Kind(
        "of trajectories: how many have how many points",
        "trajectory.counts:prepare_lengths",
        LengthsOptions,
        "points",
    ),
}

# The kinds for tables whose rows are about people: they publish columns.
KINDS_OF_ROWS = tuple(name for name, kind in KINDS.items() if kind.form == "rows")
