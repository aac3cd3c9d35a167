"""What the demo shows of local collection comes from the town, and holds within its bars."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from sfumato.demo import town
from sfumato.demo.sections.local import EPSILONS, section
from sfumato.report.blocks import PageTable
from sfumato.report.picture import Picture


@pytest.fixture(scope="module")
def blocks() -> list[Any]:
    return section(SimpleNamespace(people=town.table(6_000)))  # type: ignore[arg-type]


def number(text: object) -> float:
    return float(str(text).replace("%", "").replace("±", "").replace(",", "").strip())


def test_estimated_illnesses_are_near_the_true_ones(blocks: list[Any]) -> None:
    (table,) = (
        block for block in blocks if isinstance(block, PageTable) and "truth" in block.caption
    )
    true = town.table(6_000)["disease"].to_pylist()
    assert len(table.rows) == 13
    for name, share, estimated, sd in table.rows:
        assert number(share) == pytest.approx(100 * true.count(name) / 6_000, abs=0.06)
        # 13 bars of 6 sd: no false alarm in a hundred million runs.
        assert abs(number(share) - number(estimated)) < 6 * number(sd) + 0.2


def test_the_mean_salary_comes_out_within_its_bars(blocks: list[Any]) -> None:
    (table,) = (
        block for block in blocks if isinstance(block, PageTable) and "salary" in block.caption
    )
    true = sum(town.table(6_000)["salary"].to_pylist()) / 6_000
    assert [row[0] for row in table.rows] == list(EPSILONS)
    for _, mean, far in table.rows:
        assert abs(number(mean) - true) < 3.2 * number(far) + 2_000


def test_both_pictures_are_there(blocks: list[Any]) -> None:
    labels = [block.label for block in blocks if isinstance(block, Picture)]
    assert len(labels) == 2
    assert "trusted" in labels[1]
