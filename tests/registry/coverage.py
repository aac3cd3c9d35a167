"""Which cells a run covered: one line for each method, and the figures of all of them."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

PROPERTY = "registry"
"""The name under which a test tells of a cell, so that it reaches the summary from any worker."""

Covered = dict[str, Any]
"""A cell: method, unit, relation, engine, price, what was done, and pairs run or a refusal."""


def lines(cells: Iterable[Covered]) -> Iterator[str]:
    """The table method x unit x relation x engine, with pairs run or the refusal of planning."""
    found: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    totals: Counter[str] = Counter()
    spent: dict[str, list[tuple[float, float]]] = defaultdict(list)
    gaps: set[str] = set()
    for cell in cells:
        gaps |= {f"{cell['engine']} does not hold {gap}" for gap in cell["gaps"]}
        place = f"{cell['unit']} {cell['relation']} {cell['engine']}"
        if cell.get("refused"):
            found[cell["method"]][place][f"refused ({cell['refused']})"] += 1
            totals["cells that planning refuses"] += 1
        else:
            found[cell["method"]][place][cell["what"]] += cell["pairs"]
            totals["pairs"] += cell["pairs"]
            totals["cells"] += 1
            totals["findings"] += cell["findings"]
            spent[cell["method"]] += cell["spent"]
    for method in sorted(found):
        for place, counts in sorted(found[method].items()):
            told = ", ".join(_counted(what, many) for what, many in sorted(counts.items()))
            yield f"{method:34} {place:28} {told}"
    for method, shares in sorted(spent.items()):
        claims, losses = zip(*shares, strict=True)
        if set(claims) != {1.0} or max(losses) < 1:
            yield (
                f"{method:34} of what is charged, calls claim {min(claims):.3f} to "
                f"{max(claims):.3f}; the worst pair loses {max(losses):.3f}"
            )
    yield from sorted(gaps)
    figures = ", ".join(f"{many:,} {name}" for name, many in sorted(totals.items()))
    yield f"{len(found):,} ways to ask registered methods; {figures}"


def _counted(what: str, many: int) -> str:
    return what if what.startswith("refused") else f"{many} {what}"
