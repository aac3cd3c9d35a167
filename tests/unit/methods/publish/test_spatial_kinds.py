"""What each kind costs, releases and says of its error."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.fixtures.publications import grow_copies

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import ParameterError
from sfumato.methods.publish import kdtree, publication
from sfumato.methods.publish.request import AnswersRanges, PredictsVariance
from sfumato.methods.publish.spatial_tree import Decomposition
from sfumato.privacy.accounting import zcdp
from sfumato.privacy.accounting.composition import basic_guarantee
from sfumato.privacy.estimation.trees import LeastSquares
from sfumato.privacy.mechanisms.gaussian import Gaussian
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.methods.publish.request import Request

NAMES = ("kdtree", "hybrid", "privtree", "adaptive-grid")
SIZES = (64, 32)
BOXES = np.array(
    [
        [[0, 63], [0, 31]],
        [[5, 20], [3, 12]],
        [[30, 30], [0, 31]],
        [[9, 8], [0, 31]],
        [[7, 7], [5, 5]],
    ]
)


def method(name: str, request: Request, **options: object) -> Decomposition:
    made = publication.prepare(name, request, options).method
    assert isinstance(made, Decomposition)
    assert isinstance(made, AnswersRanges)
    return made


def truth(points: NDArray[np.int64], boxes: NDArray[np.int64]) -> NDArray[np.float64]:
    inside = (points[:, None] >= boxes[None, :, :, 0]) & (points[:, None] <= boxes[None, :, :, 1])
    found: NDArray[np.float64] = inside.all(axis=2).sum(axis=0).astype(np.float64)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("relation", list(Neighbours))
def test_the_price_is_spent_whole_and_no_more(
    name: str, relation: Neighbours, request_for: Callable[..., Request]
) -> None:
    unit = Entity("person", max_rows=3, relation=relation)
    pure = method(name, request_for(SIZES, unit=unit, epsilon="0.7"))
    assert basic_guarantee(pure.event).epsilon == Fraction(7, 10)
    concentrated = method(name, request_for(SIZES, unit=unit, rho="0.01"))
    spent, delta = zcdp.guarantee(concentrated.event)
    assert delta == 0
    assert Fraction(99, 10_000) < spent.rho <= Fraction(1, 100)


@pytest.mark.parametrize("name", NAMES)
def test_noise_grows_with_what_a_person_can_change(
    name: str, request_for: Callable[..., Request]
) -> None:
    one = method(name, request_for(SIZES))
    many = method(name, request_for(SIZES, unit=Entity("person", max_rows=5)))
    replaced = method(name, request_for(SIZES, unit=Rows(relation=Neighbours.REPLACE_ONE)))
    scales = [_scale(each) for each in (one, replaced, many)]
    assert scales[1] == 2 * scales[0]
    assert scales[2] == 5 * scales[0]


def _scale(made: Decomposition) -> Fraction:
    noise = made.noises[-1]
    assert isinstance(noise, Geometric)
    return noise.scale


def test_gaussian_noise_is_taken_where_it_errs_less(request_for: Callable[..., Request]) -> None:
    tall = kdtree.prepare(request_for(SIZES, epsilon=1, delta="0.01"), height=10, prune=0)
    assert isinstance(tall.noises[0], Gaussian)
    assert zcdp.epsilon(tall.event, delta=Fraction(1, 100)) <= 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("nullable", [False, True])
def test_boxes_are_consistent_and_cover_the_space(
    name: str,
    nullable: bool,
    request_for: Callable[..., Request],
    counted: Callable[..., Any],
    clusters: NDArray[np.int64],
) -> None:
    request = request_for(SIZES, nullable=nullable)
    made = method(name, request)
    tables = made.release(counted(request, clusters), SeededEntropy(1))
    assert set(tables) == ({"boxes", "missing"} if nullable else {"boxes"})
    tree, counts = made.space.read(tables["boxes"])
    assert tree.sums(counts) == pytest.approx(counts, abs=1e-6)
    leaves = tree.leaves
    assert (tree.highs - tree.lows + 1)[leaves].prod(axis=1).sum() == 64 * 32
    assert tables["boxes"].column("level").to_pylist() == tree.depths.tolist()
    assert made.ranges(tables, BOXES)[[0, 3]] == pytest.approx([counts[0], 0])


@pytest.mark.parametrize("name", NAMES)
def test_ranges_come_near_the_truth_when_there_is_hardly_noise(
    name: str,
    request_for: Callable[..., Request],
    counted: Callable[..., Any],
    clusters: NDArray[np.int64],
) -> None:
    request = request_for(SIZES, epsilon=10)
    made = method(name, request)
    tables = made.release(counted(request, clusters), SeededEntropy(2))
    expected = truth(clusters, BOXES)
    assert made.ranges(tables, BOXES) == pytest.approx(expected, abs=45)


@pytest.mark.parametrize(
    ("name", "options"),
    [("kdtree", {"height": 2, "prune": 0}), ("kdtree", {"height": 2, "hybrid": 0, "prune": 0}),
     ("privtree", {})],
)  # fmt: skip
def test_the_stated_deviations_are_those_of_many_releases(
    name: str, options: dict[str, object], request_for: Callable[..., Request]
) -> None:
    """Squares of errors over stated variances are 1 on average, for boxes of every depth.

    Their variance is 5 at most, for one Laplace variable alone: the mean of 20,000 of them is off
    by 5 deviations, 8 %, with probability below 1e-6.
    """
    made, copies = method(name, request_for((8, 8)), **options), 20_000
    growth = grow_copies(made, [], copies, SeededEntropy(11))
    values, precisions = growth.measured
    tree = growth.tree
    fitted = LeastSquares(tree, precisions)
    squares = fitted.solve(values) ** 2 / fitted.variances
    # The first child stands for its siblings, the noise of which is not independent.
    firsts = np.append(True, np.diff(tree.parents[1:], prepend=0) > 0)
    for depth, least in ((1, copies), (2, 2_000)):
        chosen = squares[(tree.depths == depth) & (firsts | (tree.parents == 0))]
        assert len(chosen) >= least
        assert chosen.mean() == pytest.approx(1, abs=5 * np.sqrt(5 / len(chosen)))


@pytest.mark.parametrize("options", [{}, {"prune": 0}, {"hybrid": 0, "height": 3}])
def test_no_range_errs_more_than_was_stated_before(
    options: dict[str, object],
    request_for: Callable[..., Request],
    counted: Callable[..., Any],
    clusters: NDArray[np.int64],
) -> None:
    request = request_for(SIZES)
    made = kdtree.prepare(request, **options)
    before = made.ranges_variance(BOXES)
    for seed in range(3):
        tables = made.release(counted(request, clusters), SeededEntropy(seed))
        after = made.ranges_variance_of(tables, BOXES)
        assert (after <= before * (1 + 1e-9)).all()
        assert (after > 0).tolist() == [True, True, True, False, True]


@pytest.mark.parametrize("name", NAMES)
def test_only_a_tree_of_known_height_bounds_ranges_beforehand(
    name: str, request_for: Callable[..., Request]
) -> None:
    made = method(name, request_for(SIZES))
    assert isinstance(made, PredictsVariance) == (name in {"kdtree", "hybrid"})


def test_the_deviations_in_the_table_are_those_of_its_boxes(
    request_for: Callable[..., Request],
    counted: Callable[..., Any],
    clusters: NDArray[np.int64],
) -> None:
    request = request_for(SIZES)
    for name in NAMES:
        made = method(name, request)
        tables = made.release(counted(request, clusters), SeededEntropy(1))
        tree, _ = made.space.read(tables["boxes"])
        some = np.unique(np.linspace(0, len(tree) - 1, 20).astype(int))
        boxes = np.stack([tree.lows[some], tree.highs[some]], axis=2)
        stated = np.asarray(tables["boxes"].column("sd"))[some]
        assert np.sqrt(made.ranges_variance_of(tables, boxes)) == pytest.approx(stated)
        finest = tree.leaves[some] & (tree.depths[some] == tree.depths.max())
        assert (stated[finest] <= made.error["box"]["sd"] * (1 + 1e-9)).all()


def test_a_box_with_few_rows_is_not_cut(
    request_for: Callable[..., Request], counted: Callable[..., Any]
) -> None:
    request = request_for((64, 64), epsilon=10)
    rows = counted(request, [[1, 1]] * 50)
    all_cut, few = (
        kdtree.prepare(request, height=3, hybrid=0, prune=prune).release(rows, SeededEntropy(1))
        for prune in (0, 20)
    )
    assert len(all_cut["boxes"]) == 1 + 4 + 16 + 64
    assert len(few["boxes"]) == 1 + 4 + 4 + 4


def test_a_hybrid_is_cut_at_medians_near_its_root_only(
    request_for: Callable[..., Request],
) -> None:
    made = kdtree.prepare_hybrid(request_for((1024, 1024)))
    assert made.parameters["height"] == 12  # two at medians, and ten halves to single points
    assert made.parameters["levels_at_medians"] == 2
    assert kdtree.prepare_hybrid(request_for((1024, 1024)), height=8).parameters["height"] == 8
    whole = kdtree.prepare(request_for((1024, 1024)), height=3)
    assert whole.parameters["levels_at_medians"] == 3
    assert len(kdtree.prepare(request_for((1024, 1024)), hybrid=0).cuts) == 0


@pytest.mark.parametrize("sizes", [(50,), (1, 9), (1,), (6, 5, 4)])
def test_other_numbers_of_columns(
    sizes: tuple[int, ...], request_for: Callable[..., Request], counted: Callable[..., Any]
) -> None:
    request = request_for(sizes, epsilon=10)
    corner = [[size - 1 for size in sizes]] * 30
    whole = np.array([[[0, size - 1] for size in sizes]])
    for name in ("kdtree", "privtree"):
        made = method(name, request)
        tables = made.release(counted(request, corner), SeededEntropy(3))
        assert made.ranges(tables, whole)[0] == pytest.approx(30, abs=10)
        assert made.ranges_variance_of(tables, whole)[0] > 0


def test_deeper_levels_get_more_by_the_root_that_their_noise_asks_for(
    request_for: Callable[..., Request],
) -> None:
    laplace = kdtree.prepare(request_for(SIZES), height=3).noises
    scales = [noise.scale for noise in laplace if isinstance(noise, Geometric)]
    assert [float(a / b) for a, b in itertools.pairwise(scales)] == pytest.approx(
        [2 ** (1 / 3)] * 3, rel=1e-5
    )
    gaussian = kdtree.prepare(request_for(SIZES, rho="0.1"), height=3).noises
    variances = [noise.variance for noise in gaussian]
    assert [a / b for a, b in itertools.pairwise(variances)] == pytest.approx(
        [2 ** (1 / 2)] * 3, rel=1e-5
    )
    line = kdtree.prepare(request_for((64,)), height=3).noises
    assert len({noise.variance for noise in line}) == 1


def test_a_constant_column_costs_no_cuts(request_for: Callable[..., Request]) -> None:
    assert len(kdtree.prepare(request_for((1, 64)), height=4).cuts) == 4


@pytest.mark.parametrize("name", NAMES)
def test_post_processing_keeps_boxes_consistent(
    name: str, request_for: Callable[..., Request], counted: Callable[..., Any]
) -> None:
    request = request_for(SIZES, nullable=True, postprocess=("nonnegative", "integer"))
    made = method(name, request)
    tables = made.release(counted(request, [[1, 1]] * 30), SeededEntropy(5))
    tree, counts = made.space.read(tables["boxes"])
    assert counts.min() >= 0
    assert (counts == np.rint(counts)).all()
    assert tree.sums(counts).tolist() == counts.tolist()
    assert "post-processing" in made.error["postprocess"]


@pytest.mark.parametrize(
    ("name", "sizes", "options", "code"),
    [
        ("kdtree", SIZES, {"height": 12}, "parameter_out_of_range"),
        ("kdtree", SIZES, {"height": 4, "hybrid": 5}, "parameter_out_of_range"),
        ("kdtree", SIZES, {"medians": "1"}, "parameter_out_of_range"),
        ("hybrid", SIZES, {"hybrid": 3}, "option_unknown"),
        ("privtree", SIZES, {"shape": 0}, "parameter_out_of_range"),
        ("adaptive-grid", (64,), {}, "columns_invalid"),
        ("adaptive-grid", SIZES, {"grid": 0}, "parameter_out_of_range"),
    ],
)
def test_what_cannot_be_is_refused(
    name: str,
    sizes: tuple[int, ...],
    options: dict[str, object],
    code: str,
    request_for: Callable[..., Request],
) -> None:
    with pytest.raises(ParameterError) as caught:
        publication.prepare(name, request_for(sizes), options)
    assert caught.value.code == code
