"""Frequent sets: PrivBasis beside noisy counts of all sets, and beside truncated frequencies.

Of real baskets in ../shared/data, skipped where that is not there. F1 is the share of the k most
frequent sets that is found, the error the median relative one of those found. Runs are means of a
few. The shares within PrivBasis were chosen on generated baskets, not on these.
"""

from __future__ import annotations

import csv
import gzip
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from math import comb
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Values
from sfumato.data.schema.schema import Items, Schema
from sfumato.data.schema.unit import Entity
from sfumato.methods.itemsets.baskets import Baskets
from sfumato.methods.itemsets.counts import prepare_itemsets
from sfumato.methods.itemsets.privbasis import PrivBasis
from sfumato.methods.itemsets.transactions import Profiles
from sfumato.methods.publish.request import FormRequest
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.spending import spendings
from sfumato.privacy.noise.entropy import SystemEntropy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

DATA = Path(__file__).parents[2] / "shared" / "data" / "sets"
DELTA = Fraction(1, 10**6)
RUNS, SIZE = 3, 6
CAPS = {"groceries": 10, "online_retail": 20, "msnbc": 10}
"""How many items of a person count where they must be cut."""
Found = dict[tuple[int, ...], float]


def rows() -> Iterator[dict[str, object]]:
    """F1 and error of each way, for each data set, k and epsilon."""
    if not DATA.exists():
        return
    for name, cap in CAPS.items():
        held = _Held(_baskets(name))
        for k in (50, 100):
            truth = held.most_frequent(k)
            for epsilon in ("0.1", "0.5", "1"):
                ways = {
                    "PrivBasis": partial(_bases, held, k, epsilon),
                    "PrivBasis, delta 1e-6": partial(_bases, held, k, epsilon, DELTA),
                    "counts of items and pairs": partial(_counted, held, k, epsilon, cap),
                    "truncated frequencies": partial(_truncated, held, k, float(epsilon)),
                }
                for way, run in ways.items():
                    yield from _measured(f"{name}, k {k}, epsilon {epsilon}: {way}", run, truth)


def _measured(name: str, run: Any, truth: Found) -> Iterator[dict[str, object]]:
    shares, errors = [], []
    for _ in range(RUNS):
        found = run()
        hit = found.keys() & truth.keys()
        shares.append(len(hit) / len(truth))
        errors += [float(np.median([abs(found[one] / truth[one] - 1) for one in hit]))] * bool(hit)
    yield {"name": f"{name}, F1", "value": float(np.mean(shares)), "unit": ""}
    if errors:
        yield {"name": f"{name}, error", "value": float(np.mean(errors)), "unit": ""}


def _baskets(name: str) -> list[list[int]]:
    """Baskets of numbered items."""
    file = "msnbc_sequences" if name == "msnbc" else name
    with gzip.open(DATA / f"{file}.csv.gz", "rt") as stream:
        lines = list(csv.DictReader(stream))
    if name == "online_retail":
        held: dict[str, set[str]] = {}
        for one in lines:
            held.setdefault(one["invoice"], set()).add(one["stock_code"])
        named = list(held.values())
    elif name == "msnbc":
        named = [set(one["pages"].split()) for one in lines]
    else:
        named = [set(one["items"].split(";")) for one in lines]
    place = {item: number for number, item in enumerate(sorted({x for one in named for x in one}))}
    return [[place[item] for item in one] for one in named]


class _Held:
    """Baskets in memory, as PrivBasis asks for them."""

    def __init__(self, baskets: list[list[int]]) -> None:
        self.kinds = 1 + max(max(one) for one in baskets)
        held = np.zeros((len(baskets), self.kinds), dtype=bool)
        for place, one in enumerate(baskets):
            held[place, one] = True
        packed, self.many = np.unique(np.packbits(held, axis=1), axis=0, return_counts=True)
        self.has = np.unpackbits(packed, axis=1, count=self.kinds).astype(bool)
        self.baskets = baskets

    def counts(self) -> NDArray[np.int64]:
        return np.asarray(self.many @ self.has, dtype=np.int64)

    def profiles(self, items: NDArray[np.int64]) -> Profiles:
        return Profiles(self.has[:, items], self.many)

    @lru_cache  # noqa: B019  # as long as the table, and no longer
    def supports(self, size: int, cap: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Sets of so many items and how many have them, of at most so many items of each."""
        draw = np.random.default_rng(1)
        cut = [draw.permutation(one)[:cap].tolist() for one in self.baskets]
        return Baskets.from_lists(cut, self.kinds).supports(size)

    @cached_property
    def all_counts(self) -> tuple[tuple[NDArray[np.int64], ...], NDArray[np.float64]]:
        """All pairs, and how many have each item and then each pair."""
        above = np.triu_indices(self.kinds, 1)
        both = np.zeros((self.kinds, self.kinds))
        sets, many = self.supports(2, self.kinds)
        both[sets[:, 0], sets[:, 1]] = many
        return above, np.concatenate([self.counts().astype(np.float64), both[above]])

    def most_frequent(self, k: int) -> Found:
        """The k most frequent sets, by apriori: only what may still be among them is counted."""
        counts = self.counts()
        order = np.argsort(-counts, kind="stable")[:k].tolist()
        level: dict[tuple[int, ...], NDArray[np.bool_]] = {
            (one,): self.has[:, one] for one in sorted(order)
        }
        found: Found = {one: float(self.many[held].sum()) for one, held in level.items()}
        while level and max(map(len, level)) < SIZE:
            least = sorted(found.values(), reverse=True)[min(k, len(found)) - 1]
            wider: dict[tuple[int, ...], NDArray[np.bool_]] = {}
            for one, held in level.items():
                for item in order:
                    if item > one[-1] and min(found[one], counts[item]) >= least:
                        both = held & self.has[:, item]
                        if (many := float(self.many[both].sum())) >= least:
                            wider[*one, item], found[*one, item] = both, many
            level = wider
        return dict(sorted(found.items(), key=lambda one: -one[1])[:k])


def _bases(held: _Held, k: int, epsilon: str, delta: Fraction | None = None) -> Found:
    cost = price(epsilon=epsilon) if delta is None else price(epsilon=epsilon, delta=delta)
    ways = [PrivBasis(spending=one, unit=Entity("p", 1), k=k) for one in spendings(cost)]
    items, found = min(ways, key=lambda one: one.expected_error(held.kinds)).measure(
        held, SystemEntropy()
    )
    return {
        tuple(sorted(items[list(one.items)].tolist())): one.estimate
        for one in found.most_frequent(k, size=SIZE)
    }


def _counted(held: _Held, k: int, epsilon: str, cap: int) -> Found:
    """What `itemsets` of one and of two items tell, half of epsilon each, of so many items each."""
    public = comb(held.kinds, 2) <= 1 << 22
    cost = price(epsilon=Fraction(epsilon) / 2, **({} if public else {"delta": DELTA / 2}))
    domain = Values(tuple(map(str, range(held.kinds)))) if public else None
    unit, form = Entity("p", cap), Items("p", "item")
    columns = (Column("p", Kind.INTEGER, nullable=False), Column("item", Kind.TEXT, domain=domain))
    schema = Schema("shop", columns, unit, form=form)
    request = FormRequest(dataset="shop", schema=schema, form=form, unit=unit, price=cost)
    found: Found = {}
    for size in (1, 2):
        sets, counts = held.supports(size, cap)
        if public:  # what nobody has is told of too
            every = np.stack(np.triu_indices(held.kinds, 1), axis=1) if size == 2 else None
            sets = np.arange(held.kinds)[:, None] if every is None else every
            known = dict(zip(map(tuple, held.supports(size, cap)[0].tolist()), counts, strict=True))
            counts = np.array([known.get(tuple(one), 0) for one in sets.tolist()], dtype=np.int64)
        places, noisy = prepare_itemsets(request, size=size).keys.sample(counts, SystemEntropy())
        top = np.argsort(-noisy)[:k]
        found |= {tuple(sets[places[one]].tolist()): float(noisy[one]) for one in top}
    return dict(sorted(found.items(), key=lambda one: -one[1])[:k])


def _truncated(held: _Held, k: int, epsilon: float) -> Found:
    """Bhaskar, Laxman, Smith & Thakurta 2010, by Laplace noise, for sets of one and two items."""
    draw = np.random.default_rng()
    above, counts = held.all_counts
    margin = 4 * k / epsilon * (np.log(k / 0.1) + np.log(len(counts)))
    level = np.partition(counts, -k)[-k] - margin
    noisy = np.maximum(counts, level) + draw.laplace(0, 4 * k / epsilon, len(counts))
    top = np.argpartition(-noisy, k)[:k]
    told = counts[top] + draw.laplace(0, 2 * k / epsilon, k)
    names = [
        (int(one),) if one < held.kinds
        else (int(above[0][one - held.kinds]), int(above[1][one - held.kinds]))
        for one in top
    ]  # fmt: skip
    return dict(zip(names, told.tolist(), strict=True))
