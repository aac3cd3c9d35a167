"""The methods of synthesis in words, light enough for help; `catalogue` has them as code."""

from __future__ import annotations

METHOD_WORDS = {
    "auto": "columns alone, a tree or adaptive rounds, by what noise would leave",
    "aim": "adaptive rounds: whatever the rows so far explain worst is measured next",
    "mst": "a tree of the strongest pairs of columns; fast",
    "privbayes": "a network in which a column depends on up to two others",
    "workload": "the sets of columns that are named, and nothing else",
    "independent": "every column by itself",
}
