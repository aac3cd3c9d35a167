"""The names that help lists are those that the registries have."""

from __future__ import annotations

from sfumato.anonymize import cost
from sfumato.anonymize.choices import ALGORITHMS, COSTS
from sfumato.anonymize.perturbative_release import PERTURBATIVE
from sfumato.anonymize.search import SEARCHES


def test_every_algorithm_and_cost_is_listed() -> None:
    assert set(ALGORITHMS) == {*SEARCHES, *PERTURBATIVE}
    assert set(COSTS) == set(cost.COSTS)
