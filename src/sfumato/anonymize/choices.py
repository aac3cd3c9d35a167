"""The names that a request to anonymize may give, each with one line of help.

This module imports nothing, because every list of commands shows it.
"""

from __future__ import annotations

ALGORITHMS = {
    "optimal": "one level for each column: the cheapest of all",
    "incognito": "one level for each column: all minimal choices",
    "samarati": "one level for each column: of least height",
    "sweeney": "one level for each column: of least distortion",
    "datafly": "one level for each column: quick",
    "mondrian": "a box for each class: small classes, large tables",
    "mondrian-relaxed": "a box for each class, rows dealt out at its sides",
    "k-optimize": "one set of ranges for each column",
    "meyerson-williams": "cells become *, within a proven factor of the best",
    "aggarwal-suppress": "cells become *, within a proven factor of the best",
    "aggarwal-generalize": "labels for each class, within a proven factor",
    "anatomy": "two tables, quasi and sensitive columns apart",
    "permute": "sensitive values shuffled inside groups",
    "perturb": "noise on numbers; it promises nothing",
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
