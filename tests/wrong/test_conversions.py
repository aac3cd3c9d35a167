"""Numbers that a conversion breaks, planted into methods: the registry harness sees them (F29)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from sqlglot import exp
from tests.registry import forms
from tests.registry.cells import EXTREME_ROWS, Cell, extreme_pairs, pairs, run_pair
from tests.registry.methods import METHODS
from tests.registry.tables import LAYOUTS, Relation

from sfumato.methods.itemsets import ratings
from sfumato.methods.itemsets.baskets import read_items
from sfumato.methods.itemsets.ratings import RatingScale
from sfumato.methods.trajectory import paths as point_reader

if TYPE_CHECKING:
    from tests.registry.tables import Form


def cell_of(title: str, form: Form) -> Cell:
    method = next(one for one in METHODS if one.title.startswith(title) and one.form is form)
    return Cell(method, "person", Relation.ADD_REMOVE, method.prices[0])


def findings_of_extremes(cell: Cell) -> list[str]:
    """What all extreme cells show together, and then those of each column."""
    pairs_of_columns = extreme_pairs(cell, LAYOUTS[0])
    coupled = (run_pair(cell, pair, rows=EXTREME_ROWS) for pair in pairs_of_columns)
    return [finding for one in coupled for finding in one.findings]


def cast_by_arrow(values: pa.ChunkedArray) -> Any:
    """Numbers as float64; Arrow fails where one has no exact float64, as 2^53 + 1 has none."""
    return values.cast(pa.float64()).to_numpy()


def without_casts(*positional: Any) -> exp.Expr:
    """The rows of paths with the numbers that the table has, whatever their type."""
    query = point_reader_rows(*positional)
    for cast in list(query.find_all(exp.Cast)):
        cast.replace(cast.this)
    return query


point_reader_rows = point_reader.kept_rows


def test_places_that_arrow_converts_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = cell_of("publish visits", forms.TRIPS)
    assert findings_of_extremes(cell) == []
    monkeypatch.setattr(point_reader, "kept_rows", without_casts)
    monkeypatch.setattr(point_reader, "to_float64", cast_by_arrow)
    assert findings_of_extremes(cell)[0].startswith("outcome: answer, on the neighbour")


@pytest.mark.parametrize("form", [forms.SHOP, forms.CATALOGUE], ids=lambda form: form.name)
def test_ratings_that_arrow_converts_are_caught(
    monkeypatch: pytest.MonkeyPatch, form: Form
) -> None:
    """Among listed items a row counts only where its item is a usual one."""

    def codes(scale: RatingScale, values: pa.ChunkedArray) -> Any:
        numbers = np.nan_to_num(cast_by_arrow(values), nan=scale.low)
        places = np.rint((numbers - scale.low) / scale.step)
        return np.clip(places, 0, scale.last).astype(np.int64)

    cell = cell_of("publish ratings", form)
    assert findings_of_extremes(cell) == []
    monkeypatch.setattr(ratings, "read_items", lambda facts, rows, **_: read_items(facts, rows))
    monkeypatch.setattr(RatingScale, "codes", codes)
    assert findings_of_extremes(cell)[0].startswith("outcome: answer, on the neighbour")


def test_sums_of_ratings_that_wrap_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planning refuses the scale; where it does not, one person moves a sum around 2^64."""
    cell = cell_of("publish ratings", forms.WIDE)
    monkeypatch.setattr(RatingScale, "of", partial(RatingScale.of, most=2**62))
    findings = run_pair(cell, pairs(cell)[0]).findings
    assert "L1 change" in findings[0]
