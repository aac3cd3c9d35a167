from __future__ import annotations

from datetime import date, timedelta
from decimal import Decimal
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sfumato.data.schema.hierarchy import (
    ROOT,
    Calendar,
    Hierarchy,
    Mask,
    Side,
    Step,
    Taxonomy,
    Tree,
    Widths,
    spell,
)
from sfumato.errors import SchemaError

if TYPE_CHECKING:
    from sfumato.data.schema.domain import Scalar
    from sfumato.data.schema.hierarchy import Leaf


def way(taxonomy: Taxonomy, leaf: Leaf) -> list[str | None]:
    """The labels of a leaf from level 0 to the root."""
    [row] = taxonomy.locate([leaf])
    return [labels[code] for labels, code in zip(taxonomy.labels, taxonomy.codes[row], strict=True)]


def test_zip_of_the_slides() -> None:
    taxonomy = Mask().grow(["53715", "53710", "53706", "53703"])
    assert way(taxonomy, "53715") == ["53715", "5371*", "537**", "53***", "5****", ROOT]
    assert taxonomy.labels[1] == ("5370*", "5371*")
    assert taxonomy.labels[2] == ("537**",)
    assert [size.tolist() for size in taxonomy.sizes[1:3]] == [[2, 2], [4]]


def test_birth_date_of_the_slides() -> None:
    days = [date(1976, 1, 21), date(1986, 4, 13), date(1976, 2, 28)]
    assert way(Calendar((Step.YEAR, Step.DECADE)).grow(days), days[0]) == [
        "1976-01-21",
        "1976",
        "197x",
        ROOT,
    ]
    assert way(Calendar().grow(days), days[1]) == [
        "1986-04-13",
        "1986-04",
        "1986-Q2",
        "1986",
        "198x",
        ROOT,
    ]


def test_mask_aligns_uneven_lengths_on_the_visible_side() -> None:
    right = Mask().grow(["53715-1234", "53715", "9"])
    assert way(right, "53715")[5] == way(right, "53715-1234")[5] == "53715*****"
    assert way(right, "53715")[1] == "53715*"
    assert way(right, "9")[9] == "9*********"
    left = Mask(Side.LEFT).grow(["ab1", "b1"])
    assert way(left, "ab1") == ["ab1", "*b1", "**1", ROOT]
    assert way(left, "b1") == ["b1", "*b1", "**1", ROOT]


def test_integer_widths_begin_at_multiples() -> None:
    taxonomy = Widths((5, 10, 20)).grow([23, 39, -3, 0])
    assert way(taxonomy, 23) == ["23", "20-24", "20-29", "20-39", ROOT]
    assert way(taxonomy, -3) == ["-3", "-5 to -1", "-10 to -1", "-20 to -1", ROOT]
    assert taxonomy.leaves == (-3, 0, 23, 39)


def test_real_widths_exclude_the_upper_end() -> None:
    taxonomy = Widths((Decimal("0.5"), Decimal("1.0"))).grow([Decimal("0.5"), Decimal("-0.1")])
    assert way(taxonomy, Decimal("0.5")) == ["0.5", "[0.5, 1.0)", "[0.0, 1.0)", ROOT]
    assert way(taxonomy, Decimal("-0.1")) == ["-0.1", "[-0.5, 0.0)", "[-1.0, 0.0)", ROOT]


def test_floats_are_read_as_the_decimals_they_denote() -> None:
    taxonomy = Widths((Decimal("0.1"),)).grow([0.3, 1e300, -0.0])
    assert way(taxonomy, 0.3) == ["0.3", "[0.3, 0.4)", ROOT]
    assert taxonomy.leaves[1:2] == (Decimal("0.3"),)


def test_nan_and_infinities_keep_their_labels() -> None:
    leaves = [float("nan"), float("inf"), 1.0, float("-inf"), None, float("nan")]
    taxonomy = Widths((Decimal(1),)).grow(leaves)
    assert taxonomy.labels[1] == ("-Infinity", "[1, 2)", "Infinity", "NaN", None)
    assert way(taxonomy, float("nan")) == ["NaN", "NaN", ROOT]


def test_missing_stays_missing_below_the_root() -> None:
    for hierarchy, leaf in _each():
        taxonomy = hierarchy.grow([None, leaf])
        assert taxonomy.leaves[-1] is None
        assert way(taxonomy, None) == [None] * taxonomy.height + [ROOT]
        assert None not in hierarchy.grow([leaf]).leaves


def test_no_leaves() -> None:
    for hierarchy, _ in _each():
        taxonomy = hierarchy.grow([])
        assert taxonomy.labels[-1] == (ROOT,)
        assert taxonomy.codes.shape == (len(taxonomy.leaves), taxonomy.height + 1)


def _each() -> list[tuple[Hierarchy, Leaf]]:
    return [
        (Mask(), "53715"),
        (Widths((5,)), 3),
        (Widths((Decimal("0.5"),)), Decimal(1)),
        (Calendar(), date(2024, 2, 29)),
        (Tree(("a", "b"), (("x", "*"), ("y", "*"))), "a"),
    ]


def test_an_empty_text_has_a_place() -> None:
    assert way(Mask().grow([""]), "") == ["", ROOT]


def test_locate_keeps_private_values_out_of_the_message() -> None:
    taxonomy = Mask().grow(["a"])
    with pytest.raises(SchemaError) as caught:
        taxonomy.locate(["secret1", "a", *(f"secret{i}" for i in range(2, 9)), "secret1"])
    error = caught.value
    assert error.code == "value_outside_domain"
    assert "8 values" in error.message
    assert "secret" not in str(error)
    assert error.detail is not None
    assert error.detail.count("secret") == 5


def test_values_of_another_kind_are_refused_together() -> None:
    for hierarchy, _ in _each()[:4]:
        with pytest.raises(SchemaError) as caught:
            hierarchy.grow([True, b"secret"])  # type: ignore[list-item]
        assert caught.value.code == "kind_mismatch"
        assert "2 values" in caught.value.message
        assert "secret" not in caught.value.message


def test_spelling() -> None:
    values: list[Scalar] = [True, 7, Decimal("1E+3"), Decimal("0.50"), date(999, 1, 2), "x"]
    assert [spell(value) for value in values] == ["true", "7", "1000", "0.50", "0999-01-02", "x"]


@pytest.mark.parametrize(
    ("widths", "code"),
    [
        ((), "hierarchy_invalid"),
        ((5, 12), "hierarchy_invalid"),
        ((5, 5), "hierarchy_invalid"),
        ((10, 5), "hierarchy_invalid"),
        ((1, 5), "hierarchy_invalid"),
        ((0,), "hierarchy_invalid"),
        ((-5,), "hierarchy_invalid"),
        ((True, 5), "hierarchy_invalid"),
        ((5, Decimal(10)), "hierarchy_invalid"),
        ((Decimal("nan"),), "value_outside_domain"),
        ((Decimal("inf"),), "value_outside_domain"),
        ((Decimal("0.1"), Decimal("0.25")), "hierarchy_invalid"),
        ((2**63,), "value_outside_domain"),
    ],
)
def test_widths_refused(widths: tuple[int, ...], code: str) -> None:
    with pytest.raises(SchemaError) as caught:
        Widths(widths)
    assert caught.value.code == code


@pytest.mark.parametrize(
    "steps", [(), (Step.YEAR, Step.MONTH), (Step.YEAR, Step.YEAR)], ids=["none", "order", "twice"]
)
def test_calendar_refused(steps: tuple[Step, ...]) -> None:
    with pytest.raises(SchemaError) as caught:
        Calendar(steps)
    assert caught.value.code == "hierarchy_invalid"


def _large(number: int) -> dict[str, tuple[Hierarchy, list[Leaf]]]:
    codes = [f"{i:05}" for i in range(number)]
    ways = tuple((f"{i // 10}", f"{i // 100}x", f"{i // 1000}xx", ROOT) for i in range(number))
    return {
        "mask": (Mask(), [*codes]),
        "integers": (Widths((5, 10, 100, 1000)), [*range(number)]),
        "reals": (Widths((Decimal("0.5"), Decimal(1))), [i / 8 for i in range(number)]),
        "dates": (Calendar(), [date(1800, 1, 1) + timedelta(i) for i in range(number)]),
        "tree": (Tree(tuple(codes), ways), [*codes]),
    }


def test_many_leaves_take_less_than_a_second() -> None:
    number = 20_000
    for name, (hierarchy, leaves) in _large(number).items():
        # The best of three: in a long run of tests one of them may meet the garbage collector.
        times = []
        for _ in range(3):
            start = process_time()
            taxonomy = hierarchy.grow(leaves)
            times.append(process_time() - start)
        assert min(times) < 1, name
        assert len(taxonomy.leaves) == number
        assert all(size.sum() == number for size in taxonomy.sizes)
        assert taxonomy.codes.dtype == np.int32
