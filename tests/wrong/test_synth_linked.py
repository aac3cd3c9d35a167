"""Mistakes with children, planted one by one: the auditor sees each."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
from tests.fixtures.linked import CHILDREN, counted, linked_of, linked_told

from sfumato.data.schema.unit import Rows
from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tests.fixtures.linked import Person

    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.testing.audit import Audit

EPSILON = Fraction(2)
OTHERS: list[Person] = [((0,), ()), ((1,), (0, 1))]
PEOPLE = (OTHERS, [*OTHERS, ((1,), (1,) * 40)])


def accused(run: Any, pair: Any, draws: int) -> Audit:
    return audit(run, pair, Pure(epsilon=EPSILON), entropy=SeededEntropy(5), draws=draws)


def test_children_counted_without_a_bound_are_caught() -> None:
    bounds: list[tuple[Unit, bool]] = [(Rows(), True), (CHILDREN, False)]
    for unit, wrong in bounds:
        pair = tuple(counted(people, unit=unit) for people in PEOPLE)
        run = linked_told(linked_of("workload", epsilon=EPSILON), pair)
        assert accused(run, pair, 300).violated == wrong


def test_a_number_of_children_read_off_the_data_is_caught() -> None:
    """As many children as there are, and not as many as were drawn for the parents."""

    def read_off(people: list[Person], count: int, entropy: Entropy) -> NDArray[Any]:
        del entropy
        return np.full((count, 1), sum(len(children) for _, children in people))

    assert accused(read_off, PEOPLE, 1500).violated


def test_a_bound_read_off_the_data_is_caught() -> None:
    """How many codes the number of children has tells who has most."""

    def widest(people: list[Person], count: int, entropy: Entropy) -> NDArray[Any]:
        del entropy
        return np.full((count, 1), 1 + max(len(children) for _, children in people))

    assert accused(widest, PEOPLE, 1500).violated
