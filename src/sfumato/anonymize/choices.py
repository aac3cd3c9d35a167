"""The names that a request to anonymize may give, each with one line of help.

This module imports nothing, because every list of commands shows it.
"""

from __future__ import annotations

ALGORITHMS = {
    "optimal": "one level for each column: least loss of all",
    "incognito": "one level for each column: all minimal choices",
    "samarati": "one level for each column: lowest in the lattice",
    "sweeney": "one level for each column: least distortion",
    "datafly": "one level for each column: greedy and fast",
    "mondrian": "boxes of rows: small classes, fast on large tables",
    "mondrian-relaxed": "boxes of rows, ties divided between neighbours",
    "k-optimize": "one set of ranges for each column",
    "meyerson-williams": "suppresses cells, within a proven factor of the best",
    "aggarwal-suppress": "suppresses cells, within a proven factor of the best",
    "aggarwal-generalize": "generalizes cells, within a proven factor of the best",
    "anatomy": "two tables: quasi-identifiers and sensitive values apart",
    "permute": "sensitive values shuffled inside groups",
    "perturb": "noise on numbers, without a guarantee",
}

COSTS = {
    "loss": "how much of the hierarchies labels cover",
    "loss-geometric": "the same, geometric mean over columns",
    "discernability": "rows that look alike, counted in pairs",
    "average-class-size": "rows per class, in multiples of k",
    "c-avg": "released rows per class, in multiples of k",
    "precision": "steps up the hierarchies",
    "entropy": "bits lost",
    "suppressed": "suppressed rows",
}
"""Costs, of which a search minimises one."""
