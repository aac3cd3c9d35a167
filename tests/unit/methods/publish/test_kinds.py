"""Kinds, their options and the spending that pays."""

from __future__ import annotations

from fractions import Fraction

import pytest

from sfumato.data.counting.axes import Grid
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Rows, Sensitivity
from sfumato.errors import ParameterError
from sfumato.methods import options
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.publish.publication import prepare
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.losses import spendable_rho
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.spending import Spending, spendings

REQUEST = Request(
    dataset="people",
    axes=(Grid("age", Kind.INTEGER, Bounds(0, 9), nullable=True),),
    unit=Rows(),
    price=price(epsilon=1),
)


def test_promised_kinds_are_there() -> None:
    promised = "auto histogram marginals tree wavelet fourier quadtree kdtree sparse mwem quantiles"
    assert set(promised.split()) <= set(KINDS)


def test_an_unknown_kind_or_option_is_answered_with_what_there_is() -> None:
    with pytest.raises(ParameterError, match="did you mean 'histogram'") as refused:
        prepare("histogramm", REQUEST, {})
    assert refused.value.code == "choice_unknown"
    with pytest.raises(ParameterError, match="no option 'fanot'") as refused:
        prepare("histogram", REQUEST, {"fanot": 3})
    assert refused.value.code == "option_unknown"


def test_the_same_request_has_the_same_parameters_and_another_price_has_others() -> None:
    dearer = Request(dataset="people", axes=REQUEST.axes, unit=REQUEST.unit, price=price(epsilon=2))
    first, again = (prepare("histogram", REQUEST, {}).parameters for _ in range(2))
    assert first == again != prepare("histogram", dearer, {}).parameters


@pytest.mark.parametrize(("given", "read"), [(3, 3), ("12", 12), ("3", 3)])
def test_whole_numbers_come_as_numbers_or_texts(given: object, read: int) -> None:
    assert options.whole(given, "height", least=1, most=12) == read


@pytest.mark.parametrize("given", [0, 13, True, 2.5, "2.5", "", None, "9" * 30])
def test_other_whole_numbers_are_refused(given: object) -> None:
    with pytest.raises(ParameterError, match="height must be a whole number from 1 to 12"):
        options.whole(given, "height", least=1, most=12)


def test_words_and_lists() -> None:
    assert options.choice("tree", "method", ["tree", "root"]) == "tree"
    with pytest.raises(ParameterError, match="did you mean 'tree'"):
        options.choice("tre", "method", ["tree", "root"])
    assert options.several("a, b", "columns") == ("a", "b")
    assert options.several(["a"], "columns") == ("a",)
    with pytest.raises(ParameterError, match="list of names"):
        options.several([1], "columns")


def test_a_price_is_spent_as_it_was_offered_or_as_the_rho_it_buys() -> None:
    whole = Sensitivity(l1=Fraction(2), l2_squared=Fraction(4))
    pure = spendings(price(epsilon=1))
    assert pure == [Spending(epsilon=Fraction(1))]
    assert pure[0].noise(whole, Fraction(1, 4)) == Geometric(
        epsilon=Fraction(1, 4), l1_sensitivity=Fraction(2)
    )
    both = spendings(price(epsilon=1, delta="1e-6"))
    bought = spendable_rho(epsilon=Fraction(1), delta=Fraction(1, 10**6))
    assert both == [Spending(epsilon=Fraction(1)), Spending(rho=bought)]
    assert spendings(price(rho="0.1"))[0].noise(whole) == Gaussian(
        rho=Fraction(1, 10), l2_sensitivity_squared=Fraction(4)
    )


def test_a_price_is_one_of_two() -> None:
    with pytest.raises(ParameterError, match="not both"):
        price()
    with pytest.raises(ParameterError, match="not both") as refused:
        price(epsilon=1, rho=1)
    assert refused.value.code == "options_conflict"
