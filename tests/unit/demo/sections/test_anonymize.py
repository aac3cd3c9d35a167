"""Releases of every kind can be told to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from sfumato.demo import town
from sfumato.demo.sections.anonymize import section
from sfumato.demo.town import Town
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.report.blocks import PageTable
from sfumato.report.picture import Picture

if TYPE_CHECKING:
    from pathlib import Path


def test_an_answer_has_its_expected_error(tmp_path: Path) -> None:
    release = Release(
        {"answer": pa.table({"n": [7]})},
        Guarantee("differential privacy", "One <person> changes little.", {"epsilon": "0.5"}),
        Provenance("query", {"sql": "SELECT COUNT(*) FROM people"}, "ab" * 32),
        {"n": {"sd": 2.8, "bound95": 6}},
    )
    release.report(tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "One &lt;person&gt; changes little." in page
    assert "standard deviation 2.8, 95" in page
    assert "epsilon" in page
    assert "less is better" not in page


def test_the_demo_shows_the_table_before_and_after_and_what_a_crowd_costs() -> None:
    people = town.table(1500)
    empty = pa.table({})
    shown = Town(people, empty, empty, (), None, empty)  # type: ignore[arg-type]
    blocks = section(shown)
    before, after, costs = (block for block in blocks if isinstance(block, PageTable))
    assert before.headers == after.headers
    assert len(before.rows) == len(after.rows) == 6
    assert {row[0] for row in before.rows} <= set(map(str, people["birth_date"].to_pylist()))
    assert costs.rows[0][1] == "0"
    [chart] = (block for block in blocks if isinstance(block, Picture))
    losses: dict[object, list[float]] = {}
    for name, _, loss in chart.table.rows:
        losses.setdefault(name, []).append(float(str(loss).removesuffix(" %")))
    assert len(losses) == 2
    assert all(curve == sorted(curve) for curve in losses.values())
