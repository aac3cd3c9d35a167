"""All steps together: the same columns and values, for any method, unit and amount."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.counts import whole_numbers
from tests.fixtures.synthesis import linked_rows, table_of

from sfumato.data.counting.axes import Grid, Listed
from sfumato.data.counting.frequencies import Frequencies
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import ParameterError
from sfumato.methods.synth.measurement_log import TableShape
from sfumato.methods.synth.synthesis import METHODS, Synthesis
from sfumato.methods.synth.workbench import ExactTables
from sfumato.privacy.accounting.events import ConcentratedEvent, PureEvent
from sfumato.privacy.accounting.price import price
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (3, 2, 5, 2)
TABLE = table_of(SIZES, linked_rows(SIZES, 5000, 1))
OPTIONS: dict[str, dict[str, Any]] = {"workload": {"sets": [(0, 1), (1, 2, 3)]}}


def made(method: str = "auto", **more: Any) -> Synthesis:
    options = OPTIONS.get(method, {})
    given = {"axes": TABLE.axes, "unit": Rows(), "price": price(rho=1), **more}
    return Synthesis(method=method, options=options, **given)


@pytest.mark.parametrize("method", METHODS)
def test_rows_are_like_those_of_the_table(method: str) -> None:
    table = made(method, price=price(rho=5)).release(TABLE, SeededEntropy(1))
    assert table.column_names == ["a", "b", "c", "d"]
    assert table.num_rows == pytest.approx(5000, abs=30)
    codes = [column.to_numpy() for column in table.columns]
    found = table_of(SIZES, np.stack(codes, axis=1))
    for pair in (("a", "b"), ("b", "d")) if method != "independent" else (("a",), ("c",)):
        exact, drawn = TABLE.of(pair).dense() / 5000, found.of(pair).dense() / table.num_rows
        assert np.abs(exact - drawn).sum() / 2 < 0.03, pair


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"epsilon": 1, "delta": "1e-9"}, {"rho": 1}])
@pytest.mark.parametrize("rows", [[], linked_rows(SIZES, 40, 2)], ids=["empty", "few"])
def test_small_tables_and_every_cost(method: str, cost: dict[str, Any], rows: Any) -> None:
    synthesis = made(method, price=price(**cost), unit=Entity("who", max_rows=3), rows=25)
    table = synthesis.release(table_of(SIZES, rows), SeededEntropy(3))
    assert table.num_rows == 25
    for column, size in zip(table.columns, SIZES, strict=True):
        assert 0 <= min(column.to_pylist()) <= max(column.to_pylist()) < size


@pytest.mark.parametrize("method", sorted(METHODS.keys() - {"workload"}))
@pytest.mark.parametrize("sizes", [(4,), (1, 1), (1, 3, 1), (1,)])
def test_columns_of_one_value_and_tables_of_one_column(method: str, sizes: tuple[int, ...]) -> None:
    table = table_of(sizes, linked_rows(sizes, 100, 4))
    drawn = made(method, axes=table.axes, rows=10).release(table, SeededEntropy(5))
    assert drawn.num_rows == 10
    assert drawn.num_columns == len(sizes)


def test_values_come_back_as_they_were_declared() -> None:
    axes = (
        Listed("name", pa.array(["x", "y", None]), declared=True),
        Grid("price", Kind.REAL, Bounds(0, 1, Decimal("0.25")), nullable=False),
    )
    codes = np.array([[0, 1, 2, 2], [0, 4, 2, 2]])
    table = Frequencies(axes, tuple(codes), np.full(4, 100))
    synthesis = Synthesis(axes=axes, unit=Rows(), price=price(rho=10))
    drawn = synthesis.release(table, SeededEntropy(6))
    assert drawn.schema.names == ["name", "price"]
    assert set(drawn["name"].to_pylist()) == {"x", "y", None}
    assert set(drawn["price"].to_pylist()) <= {0.0, 0.25, 0.5, 0.75, 1.0}


def test_the_charge_is_known_before_and_is_all_that_was_offered() -> None:
    assert made(price=price(rho="3/8")).event == ConcentratedEvent(rho=Fraction(3, 8))
    assert made(price=price(epsilon=2)).event == PureEvent(epsilon=Fraction(2))
    both = made(price=price(epsilon=1, delta="1e-9")).event
    assert isinstance(both, ConcentratedEvent)
    assert 0.014 < both.rho < 0.016


def test_unknown_methods_and_huge_columns_are_refused() -> None:
    with pytest.raises(ParameterError) as caught:
        made("magic")
    assert caught.value.code == "choice_unknown"
    with pytest.raises(ParameterError) as caught:
        made(axes=whole_numbers(1 << 23))
    assert caught.value.code == "problem_too_large"


class Engineless:
    """A counter that answers one set at a time, and counts how often it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def of(self, columns: Sequence[str]) -> Frequencies:
        self.asked.append(tuple(columns))
        return TABLE.marginal(columns)


def test_several_tables_are_counted_in_one_passage() -> None:
    counter = Engineless()
    shape = TableShape.of(TABLE.axes)
    exact = ExactTables(shape, counter)
    exact.expect(shape.pairs())
    assert len(counter.asked) == 1
    known = ExactTables(shape, TABLE)
    for pair in [*shape.pairs(), (0,), (2, 0)]:
        names = [shape.names[place] for place in pair]
        assert (exact.of(pair) == TABLE.marginal(names).dense()).all()
        assert (known.of(pair) == TABLE.marginal(names).dense()).all()


@pytest.mark.parametrize("method", ["mst", "aim"])
def test_tables_with_a_target_matter_more(method: str) -> None:
    """In a chain a, b, c the ends are nearly as strongly linked as neighbours: c decides."""
    sizes = (3, 3, 3)
    table = table_of(sizes, linked_rows(sizes, 5000, 1))

    def first_pairs(**options: Any) -> set[tuple[int, ...]]:
        synthesis = Synthesis(
            axes=table.axes, unit=Rows(), price=price(rho=5), method=method, options=options
        )
        pairs = [one.columns for one in synthesis.measure(table, SeededEntropy(1)).tables[3:]]
        return set(pairs[:2])

    assert first_pairs() == {(0, 1), (1, 2)}
    assert first_pairs(target=2) == {(0, 2), (1, 2)}
