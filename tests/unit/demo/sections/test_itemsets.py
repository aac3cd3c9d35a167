"""The pairs that the demo shows are those of the town, within their bars."""

from __future__ import annotations

from itertools import combinations
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sfumato.demo.registers import visits_table
from sfumato.demo.sections import itemsets
from sfumato.report.picture import Picture

if TYPE_CHECKING:
    import pyarrow as pa


def true_pairs(table: pa.Table) -> dict[str, int]:
    held: dict[int, set[str]] = {}
    for row in table.select(["patient", "department"]).to_pylist():
        held.setdefault(row["patient"], set()).add(row["department"])
    counts: dict[str, int] = {}
    for departments in held.values():
        for pair in combinations(sorted(departments), 2):
            counts[" and ".join(pair)] = counts.get(" and ".join(pair), 0) + 1
    return counts


def test_pairs_of_departments_are_near_the_true_ones() -> None:
    table = visits_table(6_000)
    town: Any = SimpleNamespace(visits=table)
    *_, picture = itemsets.section(town)
    assert isinstance(picture, Picture)
    true = true_pairs(table)
    assert len(picture.table.rows) == 8
    for name, shown, *_ in picture.table.rows:
        first, second = sorted(str(name).split(" and "))
        assert abs(int(str(shown).replace(",", "")) - true.get(f"{first} and {second}", 0)) < 400
