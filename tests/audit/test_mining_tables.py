"""Naive Bayes and trees keep their price on counts from real SQL; planted wrong ones do not.

Statistical audits are wrong with probability 1e-6 at most; exact losses are computed, not drawn.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.class_learning import AGE, CITY, STAGE, Row, learnt, planned, spread, table

from sfumato.data.counting.contribution import FULL_WEIGHT
from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.unit import Entity, Neighbours, Rows, Unit
from sfumato.methods.learn.bins import ClassCounter
from sfumato.methods.learn.naive_bayes import NaiveBayes
from sfumato.methods.learn.splits import SplitQuestions, SplitTrees
from sfumato.methods.learn.trees import Forest, GreedyTree, RandomTree, Stump
from sfumato.methods.method import Dataset, SaltedData
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.audit import Feature, audit
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.privacy.mechanisms.selection import Exponential
    from sfumato.privacy.noise.entropy import Entropy

    Ints = NDArray[np.int64]
    Tables = list[Ints]

PERSON_OF_THREE = Entity("person", 3)
REPLACED = Entity("person", 3, relation=Neighbours.REPLACE_ONE)
OTHERS = spread(9)
MINE: list[Row] = [(99, *OTHERS[1][1:-1], 3)] * 3
YOURS: list[Row] = [(99, *OTHERS[4][1:-1], 1)] * 3
PAIRS: list[tuple[Unit, list[Row], list[Row]]] = [
    (Rows(), OTHERS, [*OTHERS, MINE[0]]),
    (Rows(relation=Neighbours.REPLACE_ONE), [*OTHERS, YOURS[0]], [*OTHERS, MINE[0]]),
    (PERSON_OF_THREE, OTHERS, OTHERS + MINE),
    (REPLACED, OTHERS + YOURS, OTHERS + MINE),
]
EPSILON = Fraction(2)


def counted(learner: Any, rows: list[Row], tree: SplitTrees | None = None) -> Tables:
    """What a learner reads of rows, in the engine; by the nodes of a tree where one is given."""
    request = learner.request
    with closing(open_duckdb(table(rows))) as engine:
        data = Dataset("people", engine, engine.table, request.schema, request.unit)
        counter = ClassCounter(data, learner.space, learner.labels)
        if tree is None:
            return counter.tables(counter.bins)
        return counter.tables(counter.bins, within=tree.leaves[0], layer=tree.layer())


def naive_bayes(unit: Unit, **options: Any) -> NaiveBayes:
    """Of five features one is chosen and counted."""
    cost = {"epsilon": EPSILON}
    found = planned("naive-bayes", unit=unit, target=STAGE, cost=cost, most=1, bins=2, **options)
    assert isinstance(found.method, NaiveBayes)
    return found.method


def tree(unit: Unit, growth: str) -> Any:
    plan = planned(
        "tree", unit=unit, target=STAGE, cost={"epsilon": EPSILON}, growth=growth, bins=3
    )
    return plan.method


def told(choice: Exponential, noise: Any) -> Any:
    """A feature by its score, and its noisy counts, many times."""

    def outputs(tables: Tables, count: int, entropy: Entropy) -> Ints:
        cells = max(one.size for one in tables)
        exact = np.array([np.pad(one.ravel(), (0, cells - one.size)) for one in tables])
        scores = np.array([one.max(axis=0).sum() for one in tables])
        first = choice.sample(np.broadcast_to(scores, (count, len(scores))), entropy)
        return np.column_stack([first, noise.steps(exact[first], entropy)])

    return outputs


@pytest.mark.parametrize(("unit", "before", "after"), PAIRS, ids=["add", "swap", "three", "swaps"])
def test_naive_bayes_keeps_its_price(unit: Unit, before: list[Row], after: list[Row]) -> None:
    learner = naive_bayes(unit)
    run = told(learner.choice(5), learner.noise)
    pair = (counted(learner, before), counted(learner, after))
    found = audit(run, pair, Pure(epsilon=EPSILON), entropy=SeededEntropy(1), draws=20_000)
    assert not found.violated, found.sentence()


def chosen_and_few(outputs: Ints) -> NDArray[np.uint64]:
    """Which feature came, and how many rows of it are of the last class and of the first bin."""
    size = np.where(outputs[:, 0] == 0, 2, 4)  # ages, cities
    cell = outputs[np.arange(len(outputs)), 1 + 2 * size]
    rows = np.clip(np.rint(cell / FULL_WEIGHT), -8, 8).astype(np.int64)
    return np.asarray((outputs[:, 0] * 100 + rows + 10).astype(np.uint64))


def test_a_choice_and_counts_that_are_paid_once_are_caught() -> None:
    """Each of them takes the whole epsilon. Of two features the person helps one to be chosen."""
    learner = naive_bayes(PERSON_OF_THREE, features=(AGE, CITY))
    alike = [(one, 10, 1.0, "Rome", True, None, "no", 1) for one in range(6)]
    person = [(99, 90, 1.0, "Rome", True, None, "no", 3)] * 3
    pair = (counted(learner, alike), counted(learner, alike + person))
    claim = Pure(epsilon=EPSILON)
    right, both = told(learner.choice(2), learner.noise), Feature("both", chosen_and_few)
    found = audit(right, pair, claim, entropy=SeededEntropy(2), draws=20_000, extra=[both])
    assert not found.violated, found.sentence()
    choice = replace(learner.choice(2), epsilon=EPSILON)
    assert isinstance(learner.noise, Geometric)
    noise = replace(learner.noise, epsilon=EPSILON)
    found = audit(
        told(choice, noise), pair, claim, entropy=SeededEntropy(2), draws=20_000, extra=[both]
    )
    assert found.violated, found.sentence()


def test_a_person_who_counts_as_one_row_is_caught() -> None:
    learner, wrong = naive_bayes(PERSON_OF_THREE), naive_bayes(Entity("person", 1))
    _, before, after = PAIRS[2]
    pair = (counted(learner, before), counted(learner, after))
    run = told(wrong.choice(5), wrong.noise)
    claim = Pure(epsilon=EPSILON)
    assert audit(run, pair, claim, entropy=SeededEntropy(3), draws=20_000).violated


def test_the_leaves_of_a_random_tree_cost_once_and_a_price_for_one_row_is_caught() -> None:
    """A person has rows in two leaves, and moves the class of both."""
    learner, wrong = tree(PERSON_OF_THREE, "random"), tree(Entity("person", 1), "random")
    halves = SplitTrees(learner.space, np.array([[0]]), np.array([[1]]))
    person = [(99, age, *OTHERS[1][2:-1], 3) for age in (10, 90, 90)]
    sides = []
    for rows in (OTHERS[5:7], OTHERS[5:7] + person):
        parted = counted(learner, rows, halves)[0].sum(axis=-1)  # (leaves, classes)
        sides.append(parted)

    def run(choice: Any) -> Any:
        def outputs(counts: Ints, count: int, entropy: Entropy) -> Ints:
            return np.asarray(choice.sample(np.broadcast_to(counts, (count, 2, 3)), entropy))

        return outputs

    pair, claim = (sides[0], sides[1]), Pure(epsilon=EPSILON)
    whole = [Feature("both leaves", lambda told: (told[:, 0] * 3 + told[:, 1]).astype(np.uint64))]
    given: dict[str, Any] = {"entropy": SeededEntropy(8), "draws": 20_000, "extra": whole}
    assert isinstance(learner, RandomTree)
    assert not audit(run(learner.choice), pair, claim, **given).violated
    assert audit(run(wrong.choice), pair, claim, **given).violated


def choice_loss(choice: Exponential, before: Ints, after: Ints) -> float:
    """The exact loss of choices made at once, one for each row of scores, at the worst outcome."""
    both = []
    for scores in (before, after):
        shifted = (scores - scores.max(axis=-1, keepdims=True)).astype(np.float64)
        logs = shifted * float(choice.rate)
        both.append(logs - np.log(np.exp(logs).sum(axis=-1, keepdims=True)))
    apart = both[0] - both[1]
    return float(max(apart.max(axis=-1).sum(), -apart.min(axis=-1).sum()))


def level_scores(learner: GreedyTree, rows: list[Row], above: SplitTrees) -> Ints:
    return learner.scores(*SplitQuestions(learner.space).sides(counted(learner, rows, above)))


@pytest.mark.parametrize("gini", [False, True])
def test_every_level_costs_its_share_once_for_all_of_its_nodes(*, gini: bool) -> None:
    losses = []
    for unit, before, after in PAIRS:
        grown = tree(unit, "greedy")
        assert isinstance(grown, GreedyTree)
        learner = replace(grown, gini=gini)
        above = SplitTrees(learner.space, np.array([[0, 2, 1]]), np.array([[1, 0, 1]]))
        sides = [level_scores(learner, rows, above) for rows in (before, after)]
        paid = float(learner.choices.epsilon)
        losses.append(choice_loss(learner.choices, *sides))
        assert losses[-1] <= paid * (1 + 1e-9)
    assert max(losses) > (0.04 if gini else 0.1)  # the pairs can tell


def test_gini_scores_as_monotone_are_caught() -> None:
    """A row of the rarer class lowers the score of a side: at the rate of correct rows it leaks."""
    grown = tree(Rows(), "greedy")
    assert isinstance(grown, GreedyTree)
    learner = replace(grown, gini=True)
    # Counts (nodes, classes, questions): the row makes the first question's no side less pure, and
    # the second question's yes side larger.
    counts, yes = np.array([[[1000, 1000], [1, 0]]]), np.array([[[0, 0], [0, 1]]])
    more, more_yes = np.array([[[1000, 1000], [2, 0]]]), np.array([[[0, 0], [0, 2]]])
    sides = learner.scores(counts, yes), learner.scores(more, more_yes)
    two = replace(learner.choices, candidates=2)
    assert choice_loss(two, *sides) <= float(two.epsilon) * (1 + 1e-9)
    monotone = replace(two, monotone=True)
    assert choice_loss(monotone, *sides) > float(two.epsilon) * 1.02


def test_choices_as_monotone_where_people_are_replaced_are_caught() -> None:
    """One person leaves the class of no, another enters the class of yes: scores move both ways."""
    learner = tree(REPLACED, "stump")
    assert isinstance(learner, Stump)
    no, yes = ([(99, 90, *OTHERS[1][2:-1], stage)] * 3 for stage in (1, 3))
    sides = []
    for rows in (no, yes):
        left, right = SplitQuestions(learner.space).sides(counted(learner, [*OTHERS, *rows]))
        sides.append((left[:, None, :] + right[None, :, :]).reshape(1, -1))
    assert choice_loss(learner.choice, *sides) <= float(EPSILON) * (1 + 1e-9)
    wrong = replace(learner.choice, monotone=True)
    assert choice_loss(wrong, *sides) > 1.1 * float(EPSILON)


def test_bins_between_the_least_and_the_most_of_the_data_are_caught() -> None:
    """One old person moves every cut, and with it the bins of all others."""
    young = [(one, 20 + one, *OTHERS[1][2:-1], 1 + one % 3) for one in range(30)]
    old = [*young, (99, 99, *OTHERS[1][2:-1], 1)]
    for seen in (False, True):
        moved = []
        for rows in (young, old):
            ages = [row[1] for row in rows]
            domain = Bounds(min(ages), max(ages)) if seen else AGE.domain
            plan = planned(
                "naive-bayes", features=(replace(AGE, domain=domain),), target=STAGE, bins=4
            )
            moved.append(counted(plan.method, rows)[0])
            noise = plan.method.noise  # type: ignore[attr-defined]
        loss = np.abs(moved[0] - moved[1]).sum() / float(noise.scale)
        assert (loss > 10) if seen else (loss <= 1)


def test_a_stump_is_drawn_as_the_exponential_choice_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole of `fit`, with what the engine counts held: how often the best question comes."""
    learner = replace(tree(Rows(), "stump"))
    held = counted(learner, OTHERS)

    class Held:
        bins = ()

        def __init__(self, *_: object) -> None: ...

        def tables(self, *_: object) -> Tables:
            return held

    monkeypatch.setattr("sfumato.methods.learn.trees.ClassCounter", Held)
    no, yes = SplitQuestions(learner.space).sides(held)
    scores = (no[:, None, :] + yes[None, :, :]).astype(np.float64)
    weights = np.exp(scores * float(EPSILON))
    expected = weights.sum(axis=(0, 1)) / weights.sum()
    entropy, seen, draws = SeededEntropy(4), np.zeros(len(expected)), 600
    questions = SplitQuestions(learner.space)
    for _ in range(draws):
        (asked,) = learner.release(SaltedData(None, ""), entropy)["splits"].to_pylist()  # type: ignore[arg-type]
        place = learner.space.names.index(asked["feature"])
        seen[(questions.features == place) & (questions.cuts == asked["cut"])] += 1
    # Bernstein's bound, each at 1e-7.
    room = np.sqrt(2 * 17 * draws * expected * (1 - expected)) + 17
    assert (np.abs(seen - draws * expected) <= room).all()


@pytest.mark.parametrize("kind", ["naive-bayes", "forest", "tree"])
def test_every_count_that_is_released_has_its_noise(kind: str) -> None:
    """Of no rows at all what comes is noise: as much of it as is said, and never 30 % off."""
    options: dict[str, Any] = {
        "naive-bayes": {"bins": 64},
        "forest": {"trees": 12},
        "tree": {"depth": 8},
    }[kind]
    plan = planned(
        kind, features=(AGE, *planned(kind).request.features[1:]), target=STAGE, **options
    )
    counts = learnt(plan, table([]), seed=6).tables
    noise = (counts.get("counts") or counts["leaves"]).column("count").to_numpy()
    square = float(np.mean(noise**2)) / plan.error["count"]["sd"] ** 2
    # Of Laplace noise a square has a variance of 5: five deviations of the mean of so many.
    assert len(noise) > 400
    assert abs(square - 1) < 5 * (5 / len(noise)) ** 0.5
    assert isinstance(plan.method, NaiveBayes | Forest | GreedyTree)
