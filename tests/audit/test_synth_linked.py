"""A parent and a child table before the auditor: all that is measured of both, for one person.

The person comes with all rows in both tables, more of the child's than the bound allows. The
auditor sees which tables of both models were measured, and how much likelier their noisy counts are
on one side of the pair than on the other: no more than that can be seen of a person. Entropy is
seeded; for a fresh seed each audit would accuse a sound method with probability at most 1e-6. The
same with one mistake each are in tests/wrong.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.linked import counted, linked_of, linked_told

from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from tests.fixtures.linked import Person

EPSILON = Fraction(2)
OTHERS: list[Person] = [((0,), ()), ((1,), (0, 1)), ((), (1,)), ((0, 1), (1, 1, 0))]
PERSON: Person = ((1,), (1, 1, 1, 1))
PAIR = (counted(OTHERS), counted([*OTHERS, PERSON]))


def test_the_charge_is_the_price() -> None:
    amounts = total(linked_of("mst", epsilon=EPSILON).event, basic_price)
    assert amounts is not None
    assert list(amounts) == [EPSILON, 0]


@pytest.mark.parametrize(
    ("method", "draws"),
    [("workload", 500), *(pytest.param(one, 4000, marks=pytest.mark.slow)
                          for one in ("workload", "mst", "auto", "aim"))],
)  # fmt: skip
def test_both_models_together_keep_their_epsilon(method: str, draws: int) -> None:
    run = linked_told(linked_of(method, epsilon=EPSILON), PAIR)
    found = audit(run, PAIR, Pure(epsilon=EPSILON), entropy=SeededEntropy(1), draws=draws)
    assert not found.violated, found.sentence()
    assert found.lower_bound > 0.3, found.sentence()  # the two sides are told apart
