"""Published boxes are read as ranges, and only leaves of a tree are counted."""

from __future__ import annotations

import pytest

import sfumato as sf
from sfumato.attack.comparison.binned_counts import bins_of, published_counts
from sfumato.attack.runner import held_people

AGE = sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 63))
SCHEMA = sf.Schema("people", (AGE,))
PEOPLE = [{"age": place % 16} for place in range(4000)]


@pytest.mark.parametrize("kind", ["histogram", "tree", "wavelet", "kdtree"])
def test_the_counts_of_any_kind_are_near_those_of_the_original(kind: str) -> None:
    with sf.read(PEOPLE, SCHEMA) as table:
        release = sf.protect(table, epsilon=9).publish(kind, columns=["age"], epsilon=9)
    counts = published_counts(release, SCHEMA)
    with held_people(PEOPLE, SCHEMA) as held:
        bins = bins_of(AGE, counts.labels("age"), held.counted(["age"]))
    found = counts.single(bins)
    assert found.sum() == pytest.approx(1)
    young = sum(bins.edges[:-1] < 16)
    assert found[:young].sum() > 0.9


def test_what_counts_nothing_says_nothing() -> None:
    with sf.read(PEOPLE, SCHEMA) as table:
        release = sf.protect(table, epsilon=9).publish("quantiles", columns=["age"], epsilon=9)
    assert published_counts(release, SCHEMA).labels("age") == []
