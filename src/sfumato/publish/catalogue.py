"""Every kind of publication, with a line for people; a light page that loads none of them."""

from __future__ import annotations

from typing import NamedTuple


class Entry(NamedTuple):
    """A kind: what it releases, and the module whose `prepare`, or the function named, makes it."""

    told: str
    home: str


KINDS = {
    "auto": Entry("the best of histogram, tree, quadtree, wavelet for your ranges", "auto"),
    "histogram": Entry("a count of every combination of values", "histogram"),
    "marginals": Entry("counts of several sets of columns that agree", "marginals"),
    "tree": Entry("counts by nested ranges: good for any range of values", "tree"),
    "wavelet": Entry("counts by differences of halves: good for long ranges", "wavelet"),
    "fourier": Entry("a smooth curve of one column; of several, whole counts", "fourier"),
    "quadtree": Entry("a map: quarters of quarters of a plane", "quadtree"),
    "kdtree": Entry("a map: boxes cut at medians", "spatial.kdtree"),
    "hybrid": Entry("a map: medians first, then quarters", "spatial.kdtree:prepare_hybrid"),
    "privtree": Entry("a map: boxes divided where people are, to any depth", "spatial.privtree"),
    "adaptive-grid": Entry("a map: a grid, finer where people are", "spatial.adaptive_grid"),
    "sparse": Entry("only the large counts of very many combinations", "sparse"),
    "mwem": Entry("a whole table learnt from the questions it fails at", "mwem"),
    "dawa": Entry("counts of one column, shared where neighbours are alike", "dawa"),
    "quantiles": Entry("medians and other ranks of one column", "quantiles"),
    "continual": Entry("running counts, as days go by", "continual"),
    "sketch": Entry("a short summary from which any count can be estimated", "sketch"),
    "above": Entry("which ranges hold more rows than a threshold", "above"),
}
"""In the order in which people are told of them."""
