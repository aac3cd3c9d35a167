"""Sparse releases before the auditor: they keep their claim where a cell comes into use.

Cells of a threshold are independent and audited in copies; priority samples are drawn one by one.
Entropy is seeded; over seeds each audit accuses a sound method with probability at most 1e-6.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.counts import frequencies
from tests.fixtures.publications import line, release_copies

from sfumato.data.schema.unit import Rows
from sfumato.methods.publish.request import Request
from sfumato.methods.publish.sparse import prepare
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.data.counting.axes import Axis
    from sfumato.privacy.noise.entropy import Entropy

ONE = Pure(epsilon=Fraction(1))
PAIRS = {"empty": ([0, 0, 0], [1, 0, 0]), "other": ([0, 3, 0], [0, 4, 0])}


def request(axes: tuple[Axis, ...]) -> Request:
    return Request(dataset="d", axes=axes, unit=Rows(), price=price(epsilon=1))


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("method", ["threshold", "filter"])
def test_a_threshold_keeps_its_claim(method: str, pair: str) -> None:
    def run(table: list[int], count: int, entropy: Entropy) -> NDArray[Any]:
        return release_copies(
            lambda axes: prepare(request(axes), method=method, threshold=3), table, count, entropy
        )

    found = audit(run, PAIRS[pair], ONE, entropy=SeededEntropy(6))
    assert not found.violated, found.sentence()
    assert found.power >= 0.8, found.sentence()


def test_a_priority_sample_keeps_its_claim() -> None:
    axes = (line("x", 40),)
    made = prepare(request(axes), method="priority", size=1)

    def run(count_of_first: int, count: int, entropy: Entropy) -> NDArray[Any]:
        """Whether the one cell sampled is the first, and its estimate, coarsely."""
        dense = np.zeros(40, dtype=np.int64)
        dense[0] = count_of_first
        outputs = np.zeros((count, 2), dtype=np.int64)
        for row in outputs:
            released = made.release(frequencies(axes, dense), entropy)["sparse"].to_pylist()
            row[:] = (released[0]["x"] == 0, released[0]["count"] // 4) if released else (2, 0)
        return outputs

    found = audit(run, (0, 1), ONE, entropy=SeededEntropy(6), draws=600)
    assert not found.violated, found.sentence()
