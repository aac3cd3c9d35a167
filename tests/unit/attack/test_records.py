"""The nearest rows are those that looking at all pairs finds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from sfumato.attack.records import CodedRows, Crowd, Trait

if TYPE_CHECKING:
    from collections.abc import Sequence

SIZES = (4, 3, 5, 40)


def trait(place: int, *, number: bool) -> Trait:
    values = pa.array([float(one) for one in range(SIZES[place] - 1)] + [None])
    numbers = values.to_numpy(zero_copy_only=False) if number else None
    return Trait(f"t{place}", values, numbers)


def rows(draws: np.random.Generator, size: int) -> CodedRows:
    codes = np.stack([draws.integers(0, one, size) for one in SIZES])
    return CodedRows(codes, np.ones(size, dtype=np.int64))


def by_hand(traits: Sequence[Trait], mine: np.ndarray, theirs: np.ndarray) -> float:
    apart = 0.0
    for one, a, b in zip(traits, mine.tolist(), theirs.tolist(), strict=True):
        if one.numbers is None or one.missing in (a, b):
            apart += a != b
        else:
            apart += abs(a - b) / (one.size - 2)
    return apart


@pytest.mark.parametrize("numbers", [(), (3,), (0, 3), (0, 1, 2, 3)])
@pytest.mark.parametrize("size", [3, 60, 400])
def test_nearest_are_those_of_all_pairs(
    numbers: tuple[int, ...], size: int, draws: np.random.Generator
) -> None:
    traits = [trait(place, number=place in numbers) for place in range(4)]
    crowd_rows, people = rows(draws, size), rows(draws, 50)
    crowd = Crowd.of(traits, range(4), crowd_rows)
    found = crowd.nearest(people.codes)
    pairs = set(zip(found.people.tolist(), found.crowd.tolist(), strict=True))
    for person in range(50):
        apart = np.array([by_hand(traits, people.codes[:, person], one) for one in crowd.codes.T])
        assert found.least[person] == pytest.approx(apart.min())
        nearest = {(person, int(one)) for one in np.flatnonzero(apart < apart.min() + 1e-7)}
        assert {pair for pair in pairs if pair[0] == person} == nearest
    held = [(person, row) for part in crowd.rows(found) for person, row in zip(*part, strict=True)]
    assert len(held) == len(set(held)) >= 50
    assert all((int(one), int(crowd.owners[row])) in pairs for one, row in held)
