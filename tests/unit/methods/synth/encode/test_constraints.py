"""What constraints exclude no fit has, and single columns stay as they were measured."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.constraints import ImpossibleCombination, OrderedColumns
from sfumato.methods.synth.encode.constraints import possible_codes
from sfumato.methods.synth.encode.encoding import Encoding

if TYPE_CHECKING:
    from sfumato.data.schema.constraints import Constraint

ROWS = 6000


def schema(*constraints: Constraint) -> sf.Schema:
    days = sf.Bounds(date(2024, 1, 1), date(2024, 12, 30))
    return sf.Schema(
        "stays",
        (
            sf.Column("left", sf.Kind.DATE, domain=days),  # twelve months, and missing
            sf.Column("came", sf.Kind.DATE, domain=days, nullable=False),
            sf.Column("sex", sf.Kind.TEXT, domain=sf.Values(("F", "M")), nullable=False),
            sf.Column("births", sf.Kind.INTEGER, domain=sf.Bounds(0, 9), nullable=False),
            sf.Column("low", sf.Kind.REAL, domain=sf.Bounds(0, 2, step=Decimal("0.5"))),
            sf.Column("high", sf.Kind.INTEGER, domain=sf.Bounds(0, 2), nullable=False),
        ),
        constraints=constraints,
    )


def test_bins_that_have_days_in_order_are_possible() -> None:
    found = possible_codes(Encoding(schema(OrderedColumns(("came", "left")))))
    [(places, allowed)] = found.items()
    assert places == (0, 1)  # as the table has them, not as the constraint does
    months = Encoding(schema()).axes[1].size
    assert np.array_equal(allowed[:months], np.tri(months, dtype=bool))
    assert allowed[months:].all()  # missing values are in order


def test_numbers_of_two_kinds_and_missing_ones_are_compared() -> None:
    [(places, allowed)] = possible_codes(Encoding(schema(OrderedColumns(("low", "high"))))).items()
    assert places == (4, 5)
    assert allowed[:5].astype(int).tolist() == [
        *([1, 1, 1], [0, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 1])
    ]
    assert allowed[5:].all()


def test_the_ends_of_an_order_are_compared_where_its_middle_may_be_missing() -> None:
    middle = {False: ("high", "births", "low"), True: ("births", "low", "high")}
    for missing, order in middle.items():
        found = possible_codes(Encoding(schema(OrderedColumns(order))))
        assert len(found) == 2 + missing
    left = Encoding(schema(OrderedColumns(middle[False])), ("births",))
    assert [*possible_codes(left)] == [(3, 4)]  # what is left of it


def test_combinations_are_excluded_where_codes_stand_for_them_alone() -> None:
    never = ImpossibleCombination((("births", tuple(range(1, 10))), ("sex", ("M",))))
    [(places, allowed)] = possible_codes(Encoding(schema(never))).items()
    assert places == (2, 3)
    assert allowed.astype(int).tolist() == [[1] * 10, [1] + [0] * 9]
    month = ImpossibleCombination((("came", (date(2024, 1, 1),)), ("sex", ("M",))))
    assert not possible_codes(Encoding(schema(month)))  # other days of the month are possible
    assert not possible_codes(Encoding(schema(never), without=("sex",)))


@pytest.mark.parametrize("method", ["independent", "mst", "privbayes"])
def test_columns_in_order_stay_as_they_were_measured(method: str) -> None:
    """Repairs alone would take days that people left from later ones of other rows."""
    draws = np.random.default_rng(5)
    came = np.minimum(draws.geometric(0.01, ROWS), 360)
    left = np.minimum(came + draws.geometric(0.2, ROWS), 364)
    first = np.datetime64("2024-01-01")
    people = pa.table(
        {
            "left": pa.array(first + left),
            "came": pa.array(first + came),
            "sex": np.where(came % 2, "F", "M"),
            "births": np.where(came % 2, came % 3, 0),
            "low": np.zeros(ROWS),
            "high": np.full(ROWS, 1),
        }
    )
    never = ImpossibleCombination((("sex", ("M",)), ("births", tuple(range(1, 10)))))
    declared = schema(OrderedColumns(("came", "left")), never)
    private = sf.protect(people, declared, epsilon=10, delta=1e-6)
    rows = private.synthesize(epsilon=9, delta=1e-7, method=method).table
    months = {}
    for name in ("came", "left"):
        found = [
            np.bincount(
                table[name].drop_null().to_numpy().astype("datetime64[M]").astype(int) - 648
            )
            / table.num_rows
            for table in (people, rows)
        ]
        months[name] = np.abs(found[0] - found[1]).sum() / 2
    assert max(months.values()) < 0.03
    births = [np.bincount(table["births"].to_numpy(), minlength=10) for table in (people, rows)]
    assert np.abs(births[0] / ROWS - births[1] / rows.num_rows).sum() / 2 < 0.03
