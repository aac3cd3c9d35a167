"""The registry of syntheses: methods for tables, and other forms of made-up data with options.

It loads no method; `catalogue` has the methods for tables as code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from sfumato.methods.kinds import Kind, option_field

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.exact_numbers import Number

METHOD_WORDS = {
    "auto": "picks independent, mst or aim by the expected noise",
    "aim": "adaptive rounds: measures next what the model explains worst",
    "mst": "a tree of the strongest pairs of columns; fast",
    "privbayes": "a Bayesian network: each column depends on up to two others",
    "workload": "only the column sets of the workload",
    "independent": "each column alone",
}
"""The methods for tables, in the order in which help lists them."""


@dataclass(frozen=True, kw_only=True)
class GraphOptions:
    """The options of a synthesis as graph."""

    nodes: int | None = option_field("How many nodes the graph has; this number is public.")
    method: Literal["auto", "tricycle", "chung-lu"] = option_field("How edges are drawn.", "auto")
    people: str | None = option_field("The data set that describes the nodes.")
    columns: Sequence[str] | str | None = option_field("The columns of that data set.")


@dataclass(frozen=True, kw_only=True)
class PathOptions:
    """The options of a synthesis as paths."""

    method: Literal["dpt", "adatrace", "one-level"] = option_field("How paths are drawn.", "dpt")
    rows: int | None = option_field("How many paths are drawn.")
    every: Number = option_field("Seconds between two points of a path.", 60)
    cells: int = option_field("Cells of the grid at most.", 64)
    hexagons: int | None = option_field(
        "Cells are hexagons of this resolution, instead of squares."
    )
    trips: int = option_field("Paths of a person that count at most.", 1)
    steps: int = option_field("Steps of a path that count at most.", 1)


@dataclass(frozen=True, kw_only=True)
class BasketOptions:
    """The options of a synthesis as baskets."""

    rows: int | None = option_field("How many baskets are drawn.")


FORMS: dict[str, Kind] = {
    "graph": Kind("a graph", "graph.synthesize", GraphOptions, "edges"),
    "paths": Kind("paths of people", "trajectory.synthesize", PathOptions, "points"),
    "baskets": Kind("sets of items", "itemsets.synthesize", BasketOptions, "items"),
}
"""What can be made up besides tables, each from a table of its form."""
