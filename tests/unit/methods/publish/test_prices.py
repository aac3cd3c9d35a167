"""Every kind of one column spends its price, no more, and all but a rounding of it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from tests.fixtures.counts import request_for, whole_numbers

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.publish.publication import prepare
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_guarantee
from sfumato.privacy.accounting.losses import Pure

UNITS = [Rows(), Entity("who", max_rows=3, relation=Neighbours.REPLACE_ONE)]
ASKED: list[tuple[str, dict[str, object]]] = [
    ("quantiles", {}),
    ("quantiles", {"ranks": "0.1,0.2,0.3,0.4"}),
    ("continual", {"method": "tree"}),
    ("continual", {"method": "root"}),
    ("fourier", {}),
    ("dawa", {}),
    ("mwem", {"iterations": 7}),
    ("mwem", {"queries": "parities", "selection": "sparse-vector"}),
    ("sketch", {"depth": 4}),
]
NAMES = [" ".join([kind, *map(str, options.values())]) for kind, options in ASKED]


@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
@pytest.mark.parametrize(("kind", "options"), ASKED, ids=NAMES)
def test_epsilon_is_spent_exactly(kind: str, options: Any, unit: Any) -> None:
    request = request_for(whole_numbers(20, nullable=True), unit=unit, epsilon="0.7")
    spent = basic_guarantee(prepare(kind, request, options).event)
    assert spent == Pure(epsilon=Fraction(7, 10))


@pytest.mark.parametrize("unit", UNITS, ids=["row", "person"])
@pytest.mark.parametrize(("kind", "options"), ASKED, ids=NAMES)
def test_rho_is_spent_but_for_rounding(kind: str, options: Any, unit: Any) -> None:
    request = request_for(whole_numbers(20, nullable=True), unit=unit, rho="0.3")
    loss, delta = zcdp.guarantee(prepare(kind, request, options).event)
    assert delta == 0
    assert Fraction(3, 10) * (1 - Fraction(1, 2**40)) <= loss.rho <= Fraction(3, 10)


@pytest.mark.parametrize(("kind", "options"), ASKED, ids=NAMES)
def test_epsilon_and_delta_are_not_passed(kind: str, options: Any) -> None:
    request = request_for(whole_numbers(20), epsilon="0.7", delta="1e-6")
    event = prepare(kind, request, options).event
    assert zcdp.epsilon(event, delta=Fraction(1, 10**6)) <= Fraction(7, 10) or (
        basic_guarantee(event).epsilon <= Fraction(7, 10)
    )
