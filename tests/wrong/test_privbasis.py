"""PrivBasis with one mistake each, which exact losses along transcripts find."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.fixtures.transactions import transactions

from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.itemsets import privbasis
from sfumato.methods.itemsets.privbasis import PrivBasis
from sfumato.privacy.mechanisms.spending import Spending
from sfumato.testing.audit import largest_loss

if TYPE_CHECKING:
    from sfumato.privacy.mechanisms.spending import Noise
    from sfumato.privacy.noise.entropy import Entropy

KINDS = 6
MOST = ((0, 1),) * 300
PAIR = ((*MOST, (2, 3)), (*MOST, (2, 3), (0, 1)))
REPLACED = ((*MOST, (2, 3), (0, 1)), (*MOST, (2, 3), (3, 4)))


class BasesForgotten(PrivBasis):
    """Each bin has the noise of a single base."""

    def noise(self, many: int, share: Fraction) -> Noise:  # noqa: ARG002
        return super().noise(1, share)


class ChoicesUnpaid(PrivBasis):
    """Bins get everything, as if items and pairs had been public."""

    def shares(self, items: int, pairs: int) -> dict[str, Fraction]:
        return {**super().shares(items, pairs), "bins": Fraction(1)}


class EachChoiceByAll(PrivBasis):
    """Each item is chosen by the whole share of all of them."""

    def shares(self, items: int, pairs: int) -> dict[str, Fraction]:
        found = super().shares(items, pairs)
        return {**found, "items": found["items"] * items, "pairs": found["pairs"] * pairs}


class ExactRank(PrivBasis):
    """How many items matter is read off the data."""

    def number(self, counts: Any, level: int, entropy: Entropy) -> int:  # noqa: ARG002
        return int((counts >= max(level, 1)).sum())


def loss(kind: type[PrivBasis], relation: Neighbours, pair: Any) -> float:
    method = kind(
        spending=Spending(epsilon=Fraction(1)), unit=Entity("p", 1, relation=relation), k=6
    )
    nobody = cast("Entropy", None)  # answers are prescribed, not drawn
    return largest_loss(lambda table: method.measure(transactions(table, KINDS), nobody), pair)


@pytest.fixture(autouse=True)
def _several_bases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(privbasis, "_ONE_BASE", 1)


def test_the_right_one_passes() -> None:
    assert loss(PrivBasis, Neighbours.ADD_REMOVE, PAIR) <= 1 + 1e-9
    assert loss(PrivBasis, Neighbours.REPLACE_ONE, REPLACED) <= 1 + 1e-9


@pytest.mark.parametrize("wrong", [BasesForgotten, ChoicesUnpaid, EachChoiceByAll])
def test_a_mistake_is_found(wrong: type[PrivBasis]) -> None:
    assert loss(wrong, Neighbours.ADD_REMOVE, PAIR) > 1.05


def test_a_number_of_items_that_is_read_off_the_data_is_found() -> None:
    assert loss(ExactRank, Neighbours.ADD_REMOVE, (MOST, (*MOST, (2, 3)))) > 1.05


def test_noise_for_added_people_where_they_are_replaced_is_found() -> None:
    assert loss(PrivBasis, Neighbours.ADD_REMOVE, REPLACED) > 1.05


def test_one_transaction_where_a_person_has_two_is_found() -> None:
    pair = ((*MOST, (2, 3)), (*MOST, (2, 3), (0, 1), (0, 1)))
    once = PrivBasis(spending=Spending(epsilon=Fraction(1)), unit=Entity("p", 1), k=6)
    twice = replace(once, unit=Entity("p", 2))
    nobody = cast("Entropy", None)
    for method, kept in ((twice, True), (once, False)):
        found = largest_loss(
            lambda table, of=method: of.measure(transactions(table, KINDS), nobody),  # type: ignore[misc]
            pair,
        )
        assert (found <= 1 + 1e-9) is kept
