"""Counts by two columns as a release has them, against those counted by hand."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.attack.case import HeldRelease, HeldTable
from sfumato.attack.comparison.binned_counts import CountedRows, CountedTables, bins_of
from sfumato.attack.runner import held_people, held_release

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.attack.comparison.binned_counts import ColumnBins

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 3), sf.Widths((2,))),
        sf.Column("ill", sf.Kind.TEXT, sf.Role.SENSITIVE, sf.Values(("no", "yes"))),
    ),
)
PEOPLE = [
    {"age": age, "ill": ill}
    for age, ill in zip([0, 1, 2, 3], ["no", "no", "yes", "no"], strict=True)
]

LABELS = ["0-1", "0-1", "*", "2-3"]


@contextmanager
def columns() -> Iterator[tuple[HeldTable, list[ColumnBins]]]:
    with held_people(PEOPLE, SCHEMA) as people:
        yield people, [bins_of(one, [], people.counted([one.name])) for one in SCHEMA.columns]


def test_the_original_counts_its_own_rows() -> None:
    with columns() as (people, (age, ill)):
        found = CountedRows(HeldRelease(people)).pair(age, ill)
    assert found[:4, :2].tolist() == [[0.25, 0], [0.25, 0], [0, 0.25], [0.25, 0]]


def test_labels_count_in_all_values_they_cover() -> None:
    rows = [{"age": label, "ill": one["ill"]} for label, one in zip(LABELS, PEOPLE, strict=True)]
    with columns() as (_, (age, ill)), held_release(rows, SCHEMA) as held:
        found = CountedRows(held).pair(age, ill)
    assert found[:4, 0] == pytest.approx([0.25, 0.25, 0.125, 0.125])
    assert found[:4, 1] == pytest.approx([0.0625] * 4)


def test_a_column_that_is_not_there_could_be_anything() -> None:
    rows = [{"ill": one["ill"]} for one in PEOPLE]
    with columns() as (_, (age, ill)), held_release(rows, SCHEMA) as held:
        found = CountedRows(held).pair(age, ill)
    assert found[:4, 1] == pytest.approx([1 / 16] * 4)


def test_values_of_an_anatomy_go_with_their_group(tmp_path: Path) -> None:
    many: list[dict[str, Any]] = [
        {"age": n % 4, "ill": ("no", "yes")[n // 4 % 2]} for n in range(16)
    ]
    with sf.read(many, SCHEMA) as table:
        table.anonymize(l=2, algorithm="anatomy").save(tmp_path / "two")
    with columns() as (_, (age, ill)), held_release(tmp_path / "two", SCHEMA) as held:
        found = CountedRows(held).pair(age, ill)
        turned = CountedRows(held).pair(ill, age)
    assert found[:4, :2] == pytest.approx(np.full((4, 2), 1 / 8))
    assert pytest.approx(found) == turned.T


def test_published_counts_are_taken_from_the_table_with_both_columns() -> None:
    both = pa.table({"age": [0, 3], "ill": ["no", "yes"], "count": [3.0, 1.0]})
    with columns() as (_, (age, ill)):
        found = CountedTables([both]).pair(age, ill)
        assert (found[0, 0], found[3, 1]) == (0.75, 0.25)
        one = pa.table({"age": [0, 1], "count": [-5.0, 2.0]})  # noise below zero is none
        assert CountedTables([one]).pair(age, ill)[1, :2] == pytest.approx([0.5, 0.5])
        assert CountedTables([]).single(ill)[:2] == pytest.approx([0.5, 0.5])
