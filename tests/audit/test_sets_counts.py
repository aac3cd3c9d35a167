"""Counts of sets and ratings cost what they claim, exactly; noise that is used twice shows."""

from __future__ import annotations

from contextlib import ExitStack, closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.engines.sources import open_duckdb
from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Items, Schema
from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.itemsets import counts, ratings
from sfumato.methods.itemsets.counts import KeyNoise
from sfumato.methods.method import Dataset
from sfumato.methods.publish.request import FormRequest, FormRows
from sfumato.privacy.accounting.losses import Pure
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.threshold_keys import ThresholdKeys
from sfumato.testing.audit import audit, largest_loss
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from sfumato.privacy.noise.entropy import Entropy

ADDED = ([[("a", 5)]], [[("a", 5)], [("a", 5), ("b", 1), ("c", 3), ("d", 5)]])
REPLACED = (
    [[("b", 1)], [("a", 5), ("b", 5), ("c", 5)]],
    [[("b", 1)], [("c", 1), ("d", 1), ("e", 5), ("a", 1)]],
)


def requested(relation: Neighbours) -> FormRequest:
    unit = Entity("basket", 2, relation=relation)
    form = Items("basket", "item", "stars")
    columns = (
        Column("basket", Kind.INTEGER, nullable=False),
        Column("item", Kind.TEXT, domain=Values(tuple("abcde"))),
        Column("stars", Kind.INTEGER, domain=Bounds(1, 5)),
    )
    schema = Schema("shop", columns, unit, form=form)
    return FormRequest(dataset="shop", schema=schema, form=form, unit=unit, price=price(epsilon=1))


def loss(prepare: Callable[..., Any], relation: Neighbours, pair: Any) -> float:
    """The largest loss along a transcript of all that a kind releases."""
    request = requested(relation)
    method = prepare(request)

    with ExitStack() as stack:
        sides = []
        for baskets in pair:
            rows = [(owner, *one) for owner, held in enumerate(baskets) for one in held]
            columns = [pa.array(one) for one in zip(*rows, strict=True)]
            table = pa.table(columns, names=["basket", "item", "stars"])
            engine = stack.enter_context(closing(open_duckdb(table)))
            data = Dataset("shop", engine, engine.table, request.schema, request.unit)
            sides.append(FormRows(data, "salt"))
        return largest_loss(
            lambda rows: method.release(rows, cast("Entropy", None)), (sides[0], sides[1]), tries=2
        )


KINDS: dict[str, Any] = {"itemsets": counts.prepare_itemsets, "ratings": ratings.prepare}


@pytest.mark.parametrize("kind", list(KINDS))
@pytest.mark.parametrize(
    ("relation", "pair"), [(Neighbours.ADD_REMOVE, ADDED), (Neighbours.REPLACE_ONE, REPLACED)]
)
def test_no_transcript_costs_more(kind: str, relation: Neighbours, pair: Any) -> None:
    assert 0.4 < loss(KINDS[kind], relation, pair) <= 1 + 1e-9


@pytest.mark.parametrize("kind", list(KINDS))
def test_noise_for_added_people_where_they_are_replaced_is_found(kind: str) -> None:
    assert loss(KINDS[kind], Neighbours.ADD_REMOVE, REPLACED) > 1.05


def deduplicated_ratings(
    *, reused: bool
) -> Callable[[tuple[int, int], int, Entropy], NDArray[Any]]:
    """The count and the sum of one item, each with its own noise or with one for both."""
    count = Geometric(epsilon=Fraction(1, 2))
    total = Geometric(epsilon=Fraction(1, 2), l1_sensitivity=Fraction(4))

    def outputs(held: tuple[int, int], many: int, entropy: Entropy) -> NDArray[Any]:
        noise = total.steps(np.zeros(many, dtype=np.int64), entropy)
        first = noise if reused else count.steps(np.zeros(many, dtype=np.int64), entropy)
        return np.stack([held[0] + first, held[1] + noise], axis=1)

    return outputs


def test_one_noise_for_counts_and_sums_is_caught() -> None:
    """Subtracting one from the other leaves an exact figure."""
    claim, pair = Pure(epsilon=Fraction(1)), ((3, 0), (4, 4))
    own = audit(
        deduplicated_ratings(reused=False), pair, claim, entropy=SeededEntropy(1), draws=50_000
    )
    assert not own.violated, own.sentence()
    both = audit(
        deduplicated_ratings(reused=True), pair, claim, entropy=SeededEntropy(1), draws=50_000
    )
    assert both.violated, both.sentence()


def test_noise_that_passed_a_threshold_is_told_of_by_its_mean() -> None:
    """Fresh noise gives counts without bias; that which chose them is high in all that passed."""
    noise = Geometric(epsilon=Fraction(1), l1_sensitivity=Fraction(3))
    keys = KeyNoise(noise, ThresholdKeys(noise=noise, delta=Fraction(1, 100), max_groups=3))
    assert keys.threshold is not None
    exact = np.full(60_000, keys.threshold.threshold - 3)
    places, reused = keys.sample(exact, SeededEntropy(2))
    fresh = noise.steps(exact[places], SeededEntropy(3))
    far = 5 * noise.stddev / np.sqrt(len(places))
    assert abs(fresh.mean() - exact[0]) < far
    assert reused.mean() - exact[0] > 3
