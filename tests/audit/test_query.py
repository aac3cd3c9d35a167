"""End-to-end audits: a question with 100,000 equal groups gives as many draws of its answer.

Two tables differ in one person of every group, so each group is a neighbouring pair of its own, and
the noise must hide it within the question's whole cost: groups hold different people. Entropy is
seeded; each audit would accuse a sound answer with probability at most 1e-6. Planted mistakes must
be caught.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.fixtures.questions import argument, plan, released

from sfumato.data.counting.axes import Grid
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.methods.query.answer.question import Question, prepare
from sfumato.methods.query.plan import Function, Key, Measure
from sfumato.privacy.accounting.losses import Approx, Pure
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.testing.audit import Audit, Claim, Curve, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.data.schema.unit import Unit
    from sfumato.privacy.noise.entropy import Entropy

GROUPS = 100_000
ABSENT = -(10**6)
X = argument("x", 0, 10)
Side = list[tuple[int, int]]
"""The rows of every group: the number of a person in that group, and a value of x."""

ALONE: Side = [(1, 5), (2, 3)]
TWO = Entity("who", 2)
ONE = Pure(epsilon=Fraction(1))
ROW = Rows()


def table(side: Side) -> pa.Table:
    people, values = np.array(side, dtype=np.int64).reshape(-1, 2).T
    cells = np.repeat(np.arange(GROUPS), len(side))
    who = np.tile(people, GROUPS) + 100 * cells
    return pa.table({"cell": cells, "who": who, "x": np.tile(values, GROUPS)})


@dataclass(frozen=True)
class Asked:
    """A question about every group, two neighbouring groups, and the claim to be tested."""

    measure: Measure
    pair: tuple[Side, Side]
    unit: Unit = ROW
    claim: Claim = ONE
    declared: bool = True
    least: float = 0.0

    def question(self) -> Question:
        axis = Grid("cell", Kind.INTEGER, Bounds(0, GROUPS - 1), nullable=False)
        key = Key("cell", "cell", Kind.INTEGER, axis if self.declared else None)
        asked = plan([key], [self.measure], unit=self.unit)
        if isinstance(self.claim, Curve):
            return prepare(asked, open_table=open_duckdb, rho=Fraction(self.claim.mu) ** 2 / 2)
        delta = self.claim.delta if isinstance(self.claim, Approx) else 0
        return prepare(asked, open_table=open_duckdb, epsilon=1, delta=delta)

    def audited(self, question: Question, seed: int) -> Audit:
        def run(side: Side, count: int, entropy: Entropy) -> NDArray[Any]:
            assert count == GROUPS
            answer = released(question, table(side), entropy).table
            outputs = np.full(GROUPS, ABSENT, dtype=np.float64)
            outputs[answer["cell"].to_numpy()] = answer[self.measure.name].to_numpy()
            return outputs

        entropy = SeededEntropy(seed)
        return audit(run, self.pair, self.claim, entropy=entropy, draws=GROUPS)


BUSY: Side = [*ALONE, (3, 7), (3, 7), (3, 0), (3, 9)]
CASES = {
    "count": Asked(Measure("n", Function.COUNT), (ALONE, [*ALONE, (3, 7)]), least=0.9),
    "count by Gaussian noise": Asked(
        Measure("n", Function.COUNT), (ALONE, [*ALONE, (3, 7)]), claim=Curve(1.0), least=0.9
    ),
    "count of a busy person": Asked(
        Measure("n", Function.COUNT), (ALONE, BUSY), unit=TWO, least=0.9
    ),
    "people": Asked(
        Measure("n", Function.COUNT_PEOPLE), (ALONE, BUSY), unit=Entity("who", 1), least=0.9
    ),
    "sum": Asked(Measure("s", Function.SUM, X), (ALONE, [*ALONE, (3, 10)]), least=0.9),
    "sum of a busy person": Asked(
        Measure("s", Function.SUM, X), (ALONE, [*ALONE, *[(3, 10)] * 5]), unit=TWO, least=0.9
    ),
    "sum of a replaced row": Asked(
        Measure("s", Function.SUM, X),
        ([*ALONE, (3, 0)], [*ALONE, (3, 10)]),
        unit=Rows(relation=Neighbours.REPLACE_ONE),
        least=0.4,
    ),
    "average": Asked(Measure("a", Function.AVERAGE, X), (ALONE, [*ALONE, (3, 10)]), least=0.3),
    "variance": Asked(Measure("v", Function.VARIANCE, X), (ALONE, [*ALONE, (3, 10)]), least=0.1),
    "median": Asked(
        Measure("m", Function.QUANTILE, X, Fraction(1, 2)),
        ([(1, 0), (2, 10)], [(1, 0), (2, 10), (3, 10)]),
        least=0.3,
    ),
    "unknown keys": Asked(
        Measure("n", Function.COUNT),
        ([], [(1, 5)]),
        claim=Approx(epsilon=Fraction(1), delta=Fraction(1, 20)),
        declared=False,
        least=-1.0,  # the count is hidden as well, so there is little to see beside delta
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_answers_stay_within_their_claim(name: str) -> None:
    asked = CASES[name]
    found = asked.audited(asked.question(), seed=1)
    assert not found.violated, found.sentence()
    assert found.power >= asked.least, found.sentence()


def louder(question: Question, factor: Fraction) -> Question:
    """Spend more on every mechanism than is charged."""
    made: dict[Any, Any] = {}
    mechanisms: dict[Any, Any] = dict(question.allocation.mechanisms)
    for slot, mechanism in mechanisms.items():
        if isinstance(mechanism, ThresholdKeys):
            made[slot] = replace(mechanism, delta=mechanism.delta * factor)
        elif hasattr(mechanism, "rho"):
            made[slot] = replace(mechanism, rho=mechanism.rho * factor)
        else:
            made[slot] = replace(mechanism, epsilon=mechanism.epsilon * factor)
    return replace(question, allocation=replace(question.allocation, mechanisms=made))


@pytest.mark.parametrize(
    ("name", "factor"),
    [
        ("count", Fraction(3, 2)),
        ("count by Gaussian noise", Fraction(9, 4)),
        ("sum", Fraction(3, 2)),
        ("average", Fraction(4)),
        ("median", Fraction(4)),
        ("unknown keys", Fraction(4)),
    ],
)
def test_too_little_noise_is_caught(name: str, factor: Fraction) -> None:
    asked = CASES[name]
    found = asked.audited(louder(asked.question(), factor), seed=2)
    assert found.violated, found.sentence()


def test_a_person_whose_rows_were_not_bounded_is_caught() -> None:
    """Noise for two rows of a person, of whom a hundred are let pass."""
    asked = CASES["count of a busy person"]
    honest = asked.question()
    unbounded = replace(honest, plan=replace(honest.plan, unit=Entity("who", 100)))
    found = asked.audited(unbounded, seed=3)
    assert found.violated, found.sentence()


def test_an_average_that_is_charged_for_its_sum_alone_is_caught() -> None:
    asked = CASES["average"]
    honest = asked.question()
    mechanisms: dict[Any, Any] = dict(honest.allocation.mechanisms)
    of_count, of_sum = mechanisms
    mechanisms[of_count] = replace(mechanisms[of_count], epsilon=Fraction(8))
    mechanisms[of_sum] = replace(mechanisms[of_sum], epsilon=Fraction(1))
    mutant = replace(honest, allocation=replace(honest.allocation, mechanisms=mechanisms))
    found = asked.audited(mutant, seed=4)
    assert found.violated, found.sentence()


def test_F10_a_key_of_one_person_appears_with_probability_delta_at_most() -> None:
    """Of 100,000 keys with one person each about 5,000 may appear; 5,400 would be 5.8 sd more."""
    asked = CASES["unknown keys"]
    answer = released(asked.question(), table([(1, 5)]), SeededEntropy(5)).table
    assert answer.num_rows < 5_400
    assert answer["cell"].to_pylist() == sorted(answer["cell"].to_pylist())
    assert math.isclose(asked.claim.delta * GROUPS, 5_000)  # type: ignore[union-attr]
