"""Every kind of publication, with a line for people; a light page that loads none of them."""

from __future__ import annotations

from typing import NamedTuple


class PublicationKind(NamedTuple):
    """A kind: what it releases, and the module whose `prepare`, or the function named, makes it."""

    told: str
    home: str
    form: str = "rows"
    """The form of the tables that it is of: rows about people, edges, points or items."""


KINDS = {
    "auto": PublicationKind(
        "the best of histogram, tree, quadtree, wavelet for your ranges", "auto"
    ),
    "histogram": PublicationKind("a count of every combination of values", "histogram"),
    "marginals": PublicationKind("counts of several sets of columns that agree", "marginals"),
    "tree": PublicationKind("counts by nested ranges: good for any range of values", "tree"),
    "wavelet": PublicationKind("counts by differences of halves: good for long ranges", "wavelet"),
    "fourier": PublicationKind("a smooth curve of one column; of several, whole counts", "fourier"),
    "quadtree": PublicationKind("a map: quarters of quarters of a plane", "quadtree"),
    "kdtree": PublicationKind("a map: boxes cut at medians", "spatial.kdtree"),
    "hybrid": PublicationKind(
        "a map: medians first, then quarters", "spatial.kdtree:prepare_hybrid"
    ),
    "privtree": PublicationKind(
        "a map: boxes divided where people are, to any depth", "spatial.privtree"
    ),
    "adaptive-grid": PublicationKind(
        "a map: a grid, finer where people are", "spatial.adaptive_grid"
    ),
    "sparse": PublicationKind("only the large counts of very many combinations", "sparse"),
    "mwem": PublicationKind("a whole table learnt from the questions it fails at", "mwem"),
    "dawa": PublicationKind("counts of one column, shared where neighbours are alike", "dawa"),
    "quantiles": PublicationKind("medians and other ranks of one column", "quantiles"),
    "continual": PublicationKind("running counts, as days go by", "continual"),
    "sketch": PublicationKind("a short summary from which any count can be estimated", "sketch"),
    "above": PublicationKind("which ranges hold more rows than a threshold", "sparse_vector"),
    "triangles": PublicationKind(
        "of a graph: how many triangles it has", "sfumato.methods.graph.triangles", "edges"
    ),
    "stars": PublicationKind(
        "of a graph: pairs of ties that meet in a node, or k=3 of them",
        "sfumato.methods.graph.stars",
        "edges",
    ),
    "cliques": PublicationKind(
        "of a graph: how many sets of k nodes are all tied",
        "sfumato.methods.graph.cliques",
        "edges",
    ),
    "degrees": PublicationKind(
        "of a graph: how many ties nodes have, sorted", "sfumato.methods.graph.degrees", "edges"
    ),
    "joint-degrees": PublicationKind(
        "of a graph: how many ties join nodes of which degrees",
        "sfumato.methods.graph.joint_degrees",
        "edges",
    ),
    "node-degrees": PublicationKind(
        "of a graph: how many people have so many ties, hiding people",
        "sfumato.methods.graph.node_degrees",
        "edges",
    ),
    "items": PublicationKind(
        "of sets: how many people have each item", "sfumato.methods.itemsets.counts", "items"
    ),
    "itemsets": PublicationKind(
        "of sets: how many people have all of several items",
        "sfumato.methods.itemsets.counts:prepare_itemsets",
        "items",
    ),
    "frequent": PublicationKind(
        "of sets: the sets of items that most people have",
        "sfumato.methods.itemsets.frequent",
        "items",
    ),
    "search-log": PublicationKind(
        "of sets: what was asked for, and how often",
        "sfumato.methods.itemsets.search_logs",
        "items",
    ),
    "ratings": PublicationKind(
        "of sets: how many rated each item, and how", "sfumato.methods.itemsets.ratings", "items"
    ),
    "trips": PublicationKind(
        "of paths: how many lead from each cell of a grid to each",
        "sfumato.methods.trajectory.counts:prepare_trips",
        "points",
    ),
    "visits": PublicationKind(
        "of paths: how many people were in each cell of a grid",
        "sfumato.methods.trajectory.counts:prepare_visits",
        "points",
    ),
    "lengths": PublicationKind(
        "of paths: how many have so many points",
        "sfumato.methods.trajectory.counts:prepare_lengths",
        "points",
    ),
}
"""In the order in which people are told of them."""

KINDS_OF_ROWS = tuple(name for name, kind in KINDS.items() if kind.form == "rows")
"""Those of tables whose rows are people, or theirs: what is said of them is said of columns."""
