"""Measuring tables that someone anonymized, and reading their labels."""

from __future__ import annotations

from collections import Counter
from datetime import date
from decimal import Decimal
from fractions import Fraction
from math import exp, log, log2
from typing import TYPE_CHECKING

import pytest

from sfumato.anonymize.measure import measure_counts
from sfumato.anonymize.taxonomy import grow, read_labels, universe
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.hierarchy import Calendar, Mask, Tree, Widths
from sfumato.errors import SchemaError, SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.data.counting.frequencies import Frequencies
    from sfumato.data.schema.hierarchy import Leaf

    Counted = Callable[[Sequence[str], Sequence[Sequence[object]]], Frequencies]

AGE = Column("age", Kind.INTEGER, Role.QUASI, Bounds(0, 9), Widths((5,)))
ILLS = Tree(("flu", "cold", "ulcer"), (("lung", "*"), ("lung", "*"), ("belly", "*")))
ILL = Column("ill", Kind.TEXT, Role.SENSITIVE, hierarchy=ILLS)
ROWS = [
    ("0-4", "flu"),
    ("0-4", "cold"),
    ("0-4", "ulcer"),
    ("5-9", "flu"),
    ("5-9", "flu"),
    ("5-9", "cold"),
]


def test_every_measure_by_hand(counted: Counted) -> None:
    found = measure_counts(counted(("age", "ill"), ROWS), [AGE, ILL])
    assert (found.rows, found.classes, found.k, found.reference) == (6, 2, 3, "release")
    ill = found.sensitive["ill"]
    assert ill["distinct"] == 2
    assert ill["entropy"] == pytest.approx(exp(-(2 / 3 * log(2 / 3) + 1 / 3 * log(1 / 3))))
    assert ill["recursive_c"] == {1: pytest.approx(2 / 3), 2: pytest.approx(2)}
    assert ill["folk"] == pytest.approx(1.5)
    # In the tree's order q = (flu 1/2, cold 1/3, ulcer 1/6), the classes (1/3, 1/3, 1/3) and
    # (2/3, 1/3, 0).
    assert ill["t_equal"] == pytest.approx(1 / 6)
    assert ill["t_ordered"] == pytest.approx(1 / 6)
    assert ill["t_hierarchy"] == pytest.approx(1 / 6)
    assert ill["delta_disclosure"] is None
    assert ill["beta"] == pytest.approx(1)
    assert found.cost == {
        "loss": pytest.approx(4 / 9),
        "loss_geometric": pytest.approx(4 / 9),
        "discernability": 18,
        "average_class_size": 1,
        "c_avg": 1,
        "precision": 0.5,
        "entropy": None,
        "suppressed": 0,
    }
    assert list(found.json()) == [
        "rows", "classes", "k", "reference", "cost", "sensitive", "counted",
    ]  # fmt: skip


def test_against_the_original_shares_and_suppressed_rows_are_its_own(counted: Counted) -> None:
    ages = [1, 2, 3, 6, 7, 8, 9, 9]
    ills = ["flu", "cold", "ulcer", "flu", "flu", "cold", "ulcer", "ulcer"]
    original = counted(("age", "ill"), list(zip(ages, ills, strict=True)))
    found = measure_counts(counted(("age", "ill"), ROWS), [AGE, ILL], original=original)
    assert found.reference == "original"
    assert found.cost["suppressed"] == 2
    assert found.cost["discernability"] == 18 + 2 * 8
    # Labels cover 3 and 5 rows of the original; 9 was there twice.
    wanted = 3 * log2(3) + 3 * log2(5) + 2 * log2(8) - 2 * log2(2)
    assert found.cost["entropy"] == pytest.approx(wanted)
    # q = (cold 1/4, flu 3/8, ulcer 3/8) against (1/3, 2/3, 0).
    assert found.sensitive["ill"]["t_equal"] == pytest.approx(float(Fraction(3, 8)))


def test_suppressed_rows_are_no_class(counted: Counted) -> None:
    starred = [*ROWS, ("*", "*"), ("*", "*")]
    found = measure_counts(counted(("age", "ill"), starred), [AGE, ILL])
    assert (found.rows, found.classes, found.k) == (8, 2, 3)
    assert found.cost["suppressed"] == 2
    rooted = measure_counts(counted(("age", "ill"), [*ROWS, ("*", "flu")]), [AGE, ILL])
    assert (rooted.classes, rooted.k, rooted.cost["suppressed"]) == (3, 1, 0)
    bare = measure_counts(counted(["age"], [("*",), ("*",), ("1",), (None,)]), [AGE])
    assert (bare.classes, bare.k, bare.cost["suppressed"]) == (2, 1, 1)


def test_a_population_is_matched_by_what_labels_cover(counted: Counted) -> None:
    people = counted(["age"], [(age,) for age in (0, 1, 1, 4, 5, 6, 7, 8, 9, 9)])
    found = measure_counts(counted(("age", "ill"), ROWS), [AGE, ILL], population=people)
    assert found.population == {
        "k_map": 4,
        "presence_lower": pytest.approx(1 / 2),
        "presence_upper": pytest.approx(3 / 4),
        "journalist": 1 / 4,
        "marketer": pytest.approx((1 / 2 + 3 / 4) / 6),
    }


def test_what_cannot_be_measured_is_refused(counted: Counted) -> None:
    table = counted(("age", "ill"), ROWS)
    with pytest.raises(SchemaError) as error:
        measure_counts(table, [ILL])
    assert error.value.code == "role_invalid"
    strangers = counted(("age", "ill"), [("young", "flu"), ("young", "cold")])
    found = measure_counts(strangers, [AGE, ILL])
    assert (found.k, found.cost["discernability"], found.cost["loss"]) == (2, 4, None)
    with pytest.raises(SchemaError) as unknown:
        measure_counts(strangers, [AGE, ILL], population=counted(["age"], [(1,)]))
    assert unknown.value.code == "value_outside_domain"
    assert "young" not in unknown.value.message
    with pytest.raises(SourceError) as strange:
        measure_counts(table, [AGE, ILL], original=counted(("age", "ill"), [(1, "flu")]))
    assert strange.value.code == "value_outside_domain"
    with pytest.raises(SourceError) as empty:
        measure_counts(counted(["age"], [(None,)]), [AGE])
    assert empty.value.code == "table_empty"


def covered(column: Column, *labels: Leaf) -> list[list[Leaf]]:
    taxonomy = universe(column, labels)
    covers = read_labels(column, taxonomy, labels)
    return [
        [
            leaf
            for leaf, inside in zip(taxonomy.leaves, covers.holding(place), strict=True)
            if inside
        ]
        for place in range(len(labels))
    ]


def test_labels_of_numbers() -> None:
    found = covered(AGE, "0-4", "[2, 4]", "7", 3, "{1, 8}", "*", "3 to 4")
    assert found == [
        [0, 1, 2, 3, 4],
        [2, 3, 4],
        [7],
        [3],
        [1, 8],
        list(range(10)),
        [3, 4],
    ]
    mass = Column("mass", Kind.REAL, domain=Bounds(Decimal(0), Decimal(2), Decimal("0.5")))
    assert covered(mass, "[0.5, 1.5)", 1.5) == [[Decimal("0.5"), Decimal("1.0")], [Decimal("1.5")]]
    day = Column("day", Kind.DATE, domain=Bounds(date(2020, 1, 1), date(2020, 1, 4)))
    assert covered(day, "[2020-01-02, 2020-01-03]") == [[date(2020, 1, 2), date(2020, 1, 3)]]


def test_ranges_stand_for_all_between_where_nothing_is_declared() -> None:
    bare = Column("n", Kind.INTEGER, hierarchy=Widths((5,)))
    assert covered(bare, "[3, 5]", "5-9", "12") == [[3, 4, 5], [5, 6, 7, 8, 9], [12]]
    mass = Column("n", Kind.REAL)
    assert covered(mass, "[0.5, 2.5]", 1.0) == [
        [Decimal("0.5"), Decimal("1.0"), Decimal("2.5")],
        [Decimal("1.0")],
    ]
    day = Column("n", Kind.DATE, hierarchy=Calendar())
    found = covered(day, "1976-02", "1976-Q1", "1976", "197x", "1976-02-28")
    assert list(map(len, found)) == [29, 91, 366, 3652, 1]
    assert (found[0][0], found[3][-1]) == (date(1976, 2, 1), date(1979, 12, 31))


def test_labels_of_texts() -> None:
    assert covered(ILL, "lung", "ulcer", "{flu, ulcer}") == [
        ["flu", "cold"],
        ["ulcer"],
        ["flu", "ulcer"],
    ]
    zips = Column("zip", Kind.TEXT, hierarchy=Mask())
    (masked,) = covered(zips, "53*")
    assert masked == [f"53{digit}" for digit in range(10)]
    declared = Column("zip", Kind.TEXT, domain=Values(("530", "531", "700")), hierarchy=Mask())
    assert covered(declared, "53*", "7**") == [["530", "531"], ["700"]]
    with pytest.raises(SchemaError) as error:
        covered(zips, "AB*")
    assert error.value.code == "domain_missing"


def test_a_missing_value_is_a_leaf_of_its_own() -> None:
    assert covered(AGE, None, "0-4")[0] == [None]
    assert covered(AGE, "*", "0-4")[0] == list(range(10))


def test_numbers_that_a_file_lists_out_of_order_are_read_by_size() -> None:
    tree = Tree((30, 10, 20), (("*",),) * 3)
    column = Column("n", Kind.INTEGER, hierarchy=tree)
    assert [sorted(one) for one in covered(column, "[10, 20]")] == [[10, 20]]  # type: ignore[type-var]


def test_columns_without_hierarchy_grow_flat() -> None:
    reals = grow(Column("n", Kind.REAL), [2.5, float("nan"), 0.1, None])
    assert [str(leaf) for leaf in reals.leaves] == ["0.1", "2.5", "NaN", "None"]
    texts = grow(Column("n", Kind.TEXT, domain=Values(("z", "b"))), ["c", "a"])
    assert texts.leaves == ("z", "b", "a", "c")
    assert texts.height == 1
    wide = grow(Column("n", Kind.INTEGER, domain=Bounds(0, 10**9)), [5, 3])
    assert wide.leaves == (3, 5)
    assert Counter(grow(Column("n", Kind.BOOLEAN), []).leaves) == {False: 1, True: 1}
