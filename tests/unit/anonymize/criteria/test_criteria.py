"""Criteria at their boundaries, and the figures of the literature."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.anonymize.classes import Classes, Original, from_matrix
from sfumato.anonymize.criteria import (
    BetaLikeness,
    Criterion,
    DeltaDisclosure,
    DeltaPresence,
    DistinctDiversity,
    EntropyDiversity,
    FolkDiversity,
    KAnonymity,
    KMap,
    RecursiveDiversity,
    TCloseness,
)
from sfumato.anonymize.criteria.base import factors, sign
from sfumato.anonymize.criteria.closeness import distances, farthest
from sfumato.data.schema.hierarchy import Taxonomy
from sfumato.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.anonymize.criteria.closeness import Distance


def classes(*counts: Sequence[int], taxonomy: Taxonomy | None = None) -> Classes:
    """Classes by their counts of the values of column s; together they are the original."""
    matrix = np.array(counts, dtype=np.int64)
    leaves = None if taxonomy is None else np.arange(matrix.shape[1], dtype=np.int32)
    original = Original("s", matrix.sum(axis=0), taxonomy, leaves)
    return Classes(matrix.sum(axis=1), {"s": from_matrix(matrix, original)})


def holds(criterion: Criterion, *counts: Sequence[int]) -> list[bool]:
    return [bool(passes) for passes in criterion.holds(classes(*counts))]


def test_k_anonymity_counts_rows() -> None:
    assert KAnonymity(3).holds(Classes(np.array([2, 3, 4]))).tolist() == [False, True, True]


def test_distinct_diversity_counts_values() -> None:
    assert holds(DistinctDiversity(2, of="s"), (5, 0, 0), (1, 9, 0)) == [False, True]


@pytest.mark.parametrize(
    ("counts", "least", "passes"),
    [
        ((2, 2, 2), 3, True),
        ((1, 1, 1), 3, True),
        ((7, 7, 7, 7, 7), 5, True),
        ((2, 2, 1), 3, False),
        ((11, 1), 2, False),
        ((10**8, 10**8 + 1), 2, False),  # 1e-17 below ln 2 per row
        ((10**8, 10**8, 1), 2, True),
        ((1, 1, 4, 2), 3, True),
        ((8, 4, 2, 1, 1), 3, True),
        ((5, 0), 1, True),
    ],
)
def test_entropy_diversity_is_exact_at_the_boundary(
    counts: tuple[int, ...], least: int, passes: bool
) -> None:
    assert holds(EntropyDiversity(least, of="s"), counts) == [passes]


def test_entropy_diversity_meets_equality_of_unequal_counts() -> None:
    """Counts (4, 2, 2) have 8 ln 8 - 4 ln 4 - 4 ln 2 = 12 ln 2 of entropy, exactly."""
    assert sign([(8, 8), (-4, 4), (-2, 2), (-2, 2), (-12, 2)]) == 0
    assert sign([(8, 8), (-4, 4), (-2, 2), (-2, 2), (-11, 2)]) == 1


def test_folk_diversity_passes_at_equality() -> None:
    assert holds(FolkDiversity(2, of="s"), (2, 2), (3, 2), (4, 0)) == [True, False, False]


def test_recursive_diversity_is_strict_and_needs_l_values() -> None:
    criterion = RecursiveDiversity(2, of="s", c=2)
    assert holds(criterion, (4, 2, 0), (4, 2, 1), (3, 2, 0)) == [False, True, True]
    assert holds(RecursiveDiversity(3, of="s", c=100), (2, 2, 0), (2, 2, 1)) == [False, True]
    third = RecursiveDiversity(2, of="s", c="1/3")
    assert holds(third, (1, 1, 1, 1, 0), (1, 1, 1, 1, 1)) == [False, True]


def test_recursive_diversity_with_a_ratio_beyond_64_bits() -> None:
    huge = f"{10**30}/{10**30 - 1}"
    assert holds(RecursiveDiversity(2, of="s", c=huge), (5, 5), (5, 4)) == [True, False]


SALARY = ((1, 0, 1, 0, 0, 0, 1, 0, 0), (0, 0, 0, 1, 0, 1, 0, 0, 1), (0, 1, 0, 0, 1, 0, 0, 1, 0))


def test_salaries_are_one_sixth_close() -> None:
    cells = classes(*SALARY).of("s")
    work, scale = distances(cells, "ordered")
    found = [Fraction(int(w), 3 * 9 * scale) for w in work]
    assert found == [Fraction(1, 6), Fraction(1, 6), Fraction(1, 12)]
    assert holds(TCloseness("1/6", of="s", distance="ordered"), *SALARY) == [True] * 3
    just_below = TCloseness("0.1666666666666666666666", of="s", distance="ordered")
    assert holds(just_below, *SALARY) == [False, False, True]


# gastric ulcer, gastritis, stomach cancer, flu, bronchitis, pneumonia
DISEASES = ((1, 0, 1, 0, 0, 1), (0, 1, 0, 1, 1, 0), (0, 1, 1, 0, 1, 0))


def organs(height: int) -> Taxonomy:
    """Stomach and lung below the root, as often as the height asks."""
    steps = [[f"{organ}{level}" for organ in "sssrrr"] for level in range(1, height)]
    return Taxonomy.build(list("abcdef"), steps, missing=False)


@pytest.mark.parametrize(
    ("height", "expected"),
    [
        (4, [Fraction(2, 9), Fraction(5, 18), Fraction(1, 6)]),
        (3, [Fraction(7, 27), Fraction(8, 27), Fraction(5, 27)]),
    ],
)
def test_diseases_in_trees_of_two_heights(height: int, expected: list[Fraction]) -> None:
    found = classes(*DISEASES, taxonomy=organs(height))
    cells = found.of("s")
    work, scale = distances(cells, "hierarchy")
    assert [Fraction(int(w), 3 * 9 * scale) for w in work] == expected
    assert farthest(cells, "hierarchy") == max(expected)
    at = TCloseness(str(max(expected)), of="s", distance="hierarchy")
    assert at.holds(found).all()
    assert not TCloseness("0.2777", of="s", distance="hierarchy").holds(found).all()


def test_equal_distance_is_half_the_difference() -> None:
    found = classes((2, 0), (0, 2))
    assert farthest(found.of("s"), "equal") == Fraction(1, 2)
    assert TCloseness("0.5", of="s").holds(found).all()
    assert not TCloseness("0.4999999999999999999", of="s").holds(found).any()


@pytest.mark.parametrize("distance", ["equal", "ordered", "hierarchy"])
def test_one_value_alone_is_at_distance_0(distance: Distance) -> None:
    tree = Taxonomy.build(["a"], [], missing=False)
    assert TCloseness(0, of="s", distance=distance).holds(classes((3,), taxonomy=tree)).all()


@pytest.mark.parametrize("distance", ["equal", "ordered", "hierarchy"])
def test_large_counts_do_not_overflow(distance: Distance) -> None:
    """A billion rows in six values: products beyond 64 bits are compared as whole numbers."""
    large = [tuple(count * 10**8 for count in row) for row in DISEASES]
    small, big = classes(*DISEASES, taxonomy=organs(4)), classes(*large, taxonomy=organs(4))
    assert farthest(small.of("s"), distance) == farthest(big.of("s"), distance)
    t = farthest(small.of("s"), distance)
    fine = t - Fraction(1, 10**25)
    for at, expected in ((t, True), (fine, False)):
        criterion = TCloseness(str(at), of="s", distance=distance)
        assert bool(criterion.holds(big).all()) is expected


def test_hierarchical_distance_needs_a_hierarchy() -> None:
    with pytest.raises(SchemaError) as error:
        TCloseness("0.1", of="s", distance="hierarchy").holds(classes((1, 1)))
    assert error.value.code == "hierarchy_missing"


def test_delta_disclosure_needs_every_value_and_is_strict() -> None:
    counts = ((2, 2), (3, 1), (4, 0))
    assert holds(DeltaDisclosure("0.42", of="s"), *counts) == [False, True, False]
    assert holds(DeltaDisclosure("1.2", of="s"), *counts) == [True, True, False]
    # q = (3/4, 1/4): the first class has ln(2 / 3) and ln 2 = 0.693147180559945309417...
    below, above = "0.6931471805599453094", "0.6931471805599453095"
    assert holds(DeltaDisclosure(below, of="s"), *counts)[0] is False
    assert holds(DeltaDisclosure(above, of="s"), *counts)[0] is True


def test_beta_likeness_bounds_gains_only() -> None:
    counts = ((4, 0), (2, 2))  # q = (3/4, 1/4): gains 1/3 and 1
    assert holds(BetaLikeness("1/3", of="s"), *counts) == [True, False]
    assert holds(BetaLikeness("0.3333", of="s"), *counts) == [False, False]
    assert holds(BetaLikeness(1, of="s"), *counts) == [True, True]


def test_k_map_and_presence_look_at_the_population() -> None:
    found = Classes(np.array([1, 2, 3]), population=np.array([4, 4, 4]))
    assert KMap(4).holds(found).all()
    assert not KMap(5).holds(found).any()
    assert DeltaPresence("1/4", "1/2").holds(found).tolist() == [True, True, False]
    alone = Classes(np.array([1]), population=np.array([2]), unmatched=1)
    assert DeltaPresence(0, "1/2").holds(alone).tolist() == [True]
    assert DeltaPresence("1/10", "1/2").holds(alone).tolist() == [False]
    with pytest.raises(ParameterError) as error:
        KMap(2).holds(Classes(np.array([1])))
    assert error.value.code == "parameter_missing"


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: KAnonymity(0), "parameter_out_of_range"),
        (lambda: KMap(True), "parameter_out_of_range"),
        (lambda: EntropyDiversity(2.5, of="s"), "parameter_out_of_range"),  # type: ignore[arg-type]
        (lambda: RecursiveDiversity(2, of="s", c=0), "parameter_out_of_range"),
        (lambda: TCloseness(-1, of="s"), "parameter_out_of_range"),
        (lambda: TCloseness("nan", of="s"), "parameter_type_wrong"),
        (lambda: TCloseness(1, of="s", distance="far"), "choice_unknown"),  # type: ignore[arg-type]
        (lambda: DeltaDisclosure(0, of="s"), "parameter_out_of_range"),
        (lambda: BetaLikeness(0, of="s"), "parameter_out_of_range"),
        (lambda: DeltaPresence("1/2", "1/4"), "parameter_out_of_range"),
        (lambda: DistinctDiversity(2, of="x").holds(classes((1,))), "column_unknown"),
    ],
)
def test_wrong_parameters_are_refused(make: object, code: str) -> None:
    assert callable(make)
    with pytest.raises(ParameterError) as error:
        make()
    assert error.value.code == code


def test_traits_say_what_suppression_leaves_monotone() -> None:
    absorbing = [KAnonymity(2), KMap(2), DistinctDiversity(2, of="s")]
    others: list[Criterion] = [
        EntropyDiversity(2, of="s"),
        FolkDiversity(2, of="s"),
        RecursiveDiversity(2, of="s", c=1),
    ]
    assert all(c.absorbing and c.consequence == c for c in absorbing)
    assert all(c.consequence == DistinctDiversity(2, of="s") and not c.absorbing for c in others)
    assert TCloseness("0.1", of="s").consequence is None
    assert holds(EntropyDiversity(2, of="s"), (1, 1), (10, 0), (11, 1)) == [True, False, False]


def test_factors() -> None:
    assert factors(360) == {2: 3, 3: 2, 5: 1}
    assert factors(1) == {}
    assert factors(2_147_483_647) == {2_147_483_647: 1}


def test_a_distance_is_a_share() -> None:
    with pytest.raises(ParameterError, match=r"between 0 and 1, but 20 .* 20 % is written 0.2 or"):
        TCloseness(20, of="s")
    assert TCloseness(1, of="s").t == 1
