"""The histogram before the auditor, through the method that the gatekeeper runs.

Entropy is seeded; over seeds each audit accuses a sound method with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.publications import release_copies

from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.methods.publish.histogram import Histogram, prepare, unbiased
from sfumato.methods.publish.request import Request
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.testing.audit import Claim, Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.data.counting.axes import Axis
    from sfumato.data.counting.frequencies import Counter
    from sfumato.methods.method import Method
    from sfumato.privacy.noise.entropy import Entropy

ONE = Pure(epsilon=Fraction(1))
REPLACE = Rows(relation=Neighbours.REPLACE_ONE)
# The noise of many rows is so wide that its being whole does not help to tell it from Gaussian.
PERSON, CROWD = Entity("person", max_rows=2), Entity("person", max_rows=20)
SOUND = [
    pytest.param(Rows(), ([5, 0, 2], [5, 1, 2]), {"epsilon": 1}, ONE, 0.85, id="rows"),
    pytest.param(REPLACE, ([5, 1, 2], [6, 0, 2]), {"epsilon": 1}, ONE, 0.5, id="replaced"),
    pytest.param(PERSON, ([5, 0, 2], [5, 2, 2]), {"epsilon": 1}, ONE, 0.85, id="people"),
    pytest.param(CROWD, ([5, 0], [5, 20]), {"rho": "1/2"}, Curve(mu=1.0), 0.85, id="gaussian"),
]


@pytest.mark.parametrize(("unit", "pair", "cost", "claim", "power"), SOUND)
def test_the_histogram_keeps_its_claim(
    unit: Unit, pair: Any, cost: dict[str, Any], claim: Claim, power: float
) -> None:
    def make(axes: tuple[Axis, ...]) -> Histogram:
        return unbiased(Request(dataset="d", axes=axes, unit=unit, price=price(**cost)))

    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        return release_copies(make, table, count, entropy)

    found = audit(run, pair, claim, entropy=SeededEntropy(6))
    assert not found.violated, found.sentence()
    assert found.power >= power, found.sentence()


@pytest.mark.parametrize("pair", [([5, 0, 2], [5, 1, 2]), ([8, 8, 2], [8, 9, 2])])
def test_the_truncated_histogram_keeps_its_claim(pair: Any) -> None:
    """Also of a count above the public end, which is told as about that."""

    def make(axes: tuple[Axis, ...]) -> Method[Counter]:
        asked = Request(dataset="d", axes=axes, unit=Rows(), price=price(epsilon=1))
        return prepare(asked, noise="truncated-geometric", most=8)

    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        return release_copies(make, table, count, entropy)

    found = audit(run, pair, ONE, entropy=SeededEntropy(7))
    assert not found.violated, found.sentence()
    assert found.power >= 0.8, found.sentence()
