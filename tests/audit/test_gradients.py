"""A round of noisy gradients keeps its epsilon, within 1e-6 of a false alarm.

Exact sums are made once for each of two neighbours, by the engine; noise is drawn again and again.
"""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.unit.methods.learn.learnt import TARGET, dataset, features, people, planned

from sfumato.data.engines.sources import open_duckdb
from sfumato.methods.learn.bins import ClassLabels
from sfumato.methods.learn.features import FeatureSpace
from sfumato.methods.learn.gradients import LogisticRows
from sfumato.privacy.accounting.losses import Pure
from sfumato.testing.audit import audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

EPSILON, DRAWS, WIDTH = Fraction(2), 20_000, 2
SATURATED = np.array([[200_000, 0, 0]])


def exact_sums(cells: list[list[float]], classes: list[str]) -> dict[str, NDArray[Any]]:
    """The exact gradient and curvature of a table, where every row is given its wrong class."""
    learning = planned("logistic", WIDTH)
    table = people(np.asarray(cells, dtype=np.float64).reshape(-1, WIDTH), classes)
    with closing(open_duckdb(table)) as engine:
        rows = LogisticRows(
            dataset(learning, engine),
            FeatureSpace(features(WIDTH)),
            ClassLabels.of(TARGET),
            np.full(2, 1024),
        )
        return {
            "gradient": rows.gradient(SATURATED)[0],
            "curvature": rows.curvature(np.zeros((1, WIDTH + 1), dtype=np.int64))[0],
        }


NEAR = [[0.1, -0.1]] * 5
WITH = exact_sums([*NEAR, [1.0, 1.0]], ["yes"] * 5 + ["no"])
WITHOUT = exact_sums(NEAR, ["yes"] * 5)
"""A row in a corner of the bounds that a saturated line gives the wrong class; and no such row."""


@pytest.mark.parametrize("name", ["gradient", "curvature"])
def test_a_round_keeps_what_it_claims(name: str) -> None:
    learning = planned("logistic", WIDTH, epsilon=10 * EPSILON, solver="newton").method
    noise = getattr(learning, name)
    assert not violated(noise, name, Pure(epsilon=noise.event.epsilon), seed=1)
    # The same noise would not keep half of that epsilon: the audit can fail.
    assert violated(noise, name, Pure(epsilon=noise.event.epsilon / 2), seed=2)


def violated(noise: Any, name: str, claim: Pure, *, seed: int, draws: int = DRAWS) -> bool:
    """Whether noise on the sums of the two neighbours breaks a claim."""
    middle, moves = (
        (WITH[name] + WITHOUT[name]) / 2,
        np.sign((WITH[name] - WITHOUT[name]).astype(np.float64)),
    )

    def outputs(sums: Any, draws: int, entropy: Entropy) -> NDArray[Any]:
        noisy = noise.steps(np.tile(sums[name], (draws, 1)), entropy)
        return np.asarray((((noisy - middle) * moves) > 0).sum(axis=1))

    found = audit(outputs, (WITH, WITHOUT), claim, entropy=SeededEntropy(seed), draws=draws)
    return found.violated
