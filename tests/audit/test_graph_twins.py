"""Made-up graphs by brute force: no tie and no row of a node moves a figure beyond its noise.

What is measured is taken from a whole release, at the mechanisms: small graphs with kinds of nodes,
each tie more or less, each row of a node more, less or another. Rows lie in another order each time
and point either way, as an engine may give them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import combinations, product
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa
import pytest

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Values
from sfumato.data.schema.schema import Edges, Schema
from sfumato.data.schema.unit import Entity, Neighbours
from sfumato.methods.graph import synthesize
from sfumato.methods.graph.edge_mechanisms import LadderCount
from sfumato.methods.publish.request import FormRequest
from sfumato.privacy.accounting.composition import basic_price, total
from sfumato.privacy.accounting.price import price
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.methods.graph.synthesize import GraphSynthesis
    from sfumato.methods.publish.request import FormRows

Ties = frozenset[tuple[int, int]]
Kinds = tuple[str | None, ...]
FIGURES = ("degrees", "nodes", "ties")
_FAR = 6


class _Measured(Exception):  # noqa: N818  # not an error: all figures are there
    pass


@dataclass
class Recorder:
    """The figures of one release after the other, as they come to the mechanisms."""

    twin: GraphSynthesis
    shuffled: np.random.Generator = field(default_factory=lambda: np.random.default_rng(9))
    seen: list[Any] = field(default_factory=list)

    def of(self, ties: Ties, kinds: Kinds) -> list[Any]:
        """What a release measures of a graph and its nodes; None has no row."""
        self.seen.clear()
        pairs = [(one, other)[:: self.shuffled.choice([1, -1])] for one, other in sorted(ties)]
        edges = self._table(("from", "to"), pairs)
        nodes = self._table(("id", "kind"), [one for one in enumerate(kinds) if one[1] is not None])
        rows = SimpleNamespace(read=lambda _: edges, of=lambda *_: nodes, salt="salt")
        with suppress(_Measured):
            self.twin.release(cast("FormRows", rows), SeededEntropy(1))
        return list(self.seen)

    def _table(self, names: tuple[str, str], rows: list[Any]) -> pa.Table:
        order = self.shuffled.permutation(len(rows))
        types = [pa.int64(), pa.string() if "kind" in names else pa.int64()]
        return pa.table({name: pa.array([rows[at][place] for at in order], types[place])
                         for place, name in enumerate(names)})  # fmt: skip


def _twin(nodes: int, relation: Neighbours = Neighbours.ADD_REMOVE) -> GraphSynthesis:
    ends = tuple(Column(one, Kind.INTEGER, nullable=False) for one in ("from", "to"))
    friends = Schema("friends", ends, form=Edges("from", "to"))
    columns = (Column("id", Kind.INTEGER, nullable=False),
               Column("kind", Kind.TEXT, domain=Values(("a", "b")), nullable=False))  # fmt: skip
    members = Schema("members", columns, Entity("id", 1, relation=relation))
    request = FormRequest(
        dataset="friends", schema=friends, form=Edges("from", "to"), unit=friends.unit,
        price=price(epsilon=1), linked={"members": members},
    )  # fmt: skip
    return synthesize.prepare(request, nodes=nodes, people="members")


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Callable[[GraphSynthesis], Recorder]:
    def of(twin: GraphSynthesis) -> Recorder:
        made = Recorder(twin)

        def steps(noise: Geometric, values: Any, _entropy: object) -> Any:
            made.seen.append((noise.l1_sensitivity, np.array(values)))
            return np.asarray(values)

        def sample(_ladder: LadderCount, value: int, at: Any, _entropy: object) -> int:
            made.seen.append((None, np.array([value, *(at(far) for far in range(_FAR))])))
            return value

        monkeypatch.setattr(Geometric, "steps", steps)
        monkeypatch.setattr(LadderCount, "sample", sample)
        return made

    return of


@pytest.fixture
def _measured_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(_: object) -> None:
        raise _Measured

    monkeypatch.setattr(synthesize, "shares", stop)  # the first that is done to noisy figures


def _moves(one: list[Any], other: list[Any]) -> dict[str, int]:
    """How far figures move, in L1; and that triangles keep to what the ladder needs."""
    (_, count), (_, beside) = one[1], other[1]
    assert abs(count[0] - beside[0]) <= min(count[1], beside[1])
    assert (count[1:-1] <= beside[2:]).all()
    assert (beside[1:-1] <= count[2:]).all()
    plain = [(one[at][1], other[at][1]) for at in (0, 2, 3)]
    return {name: int(np.abs(mine - its).sum())
            for name, (mine, its) in zip(FIGURES, plain, strict=True)}  # fmt: skip


def _claimed(twin: GraphSynthesis) -> dict[str, int]:
    assert twin.nodes is not None
    noises = (twin.degrees.noise, twin.nodes.kinds, twin.nodes.ties)
    return {name: int(one.l1_sensitivity) for name, one in zip(FIGURES, noises, strict=True)}


def _worst(found: list[dict[str, int]]) -> dict[str, int]:
    return {name: max(one[name] for one in found) for name in FIGURES}


def _with(kinds: Kinds, at: int, to: str | None) -> Kinds:
    return (*kinds[:at], to, *kinds[at + 1 :])


def _one_row_less(kinds: Kinds) -> list[Kinds]:
    return [_with(kinds, at, None) for at, has in enumerate(kinds) if has]


def _one_row_replaced(kinds: Kinds) -> list[Kinds]:
    """Another row in place of one: of the same node or of one that had none."""
    return [_with(less, at, to) for less in _one_row_less(kinds) for at in range(len(kinds))
            for to in "ab" if less[at] is None]  # fmt: skip


PAIRS = list(combinations(range(4), 2))
GRAPHS = [frozenset(kept) for many in range(7) for kept in combinations(PAIRS, many)]
KINDS: list[Kinds] = list(product((None, "a", "b"), repeat=4))


@pytest.mark.usefixtures("_measured_alone")
@pytest.mark.parametrize("least", [5, pytest.param(0, marks=pytest.mark.slow)])
def test_all_neighbours_of_all_graphs_of_four_nodes(recorded: Any, least: int) -> None:
    """Of those with so many ties at least; where nodes have few, nothing is cut."""
    graphs = [one for one in GRAPHS if len(one) >= least]
    twin, replacing = _twin(4), _twin(4, Neighbours.REPLACE_ONE)
    made = recorded(twin)
    found = {one: made.of(*one) for one in product(graphs, KINDS)}
    by_tie, by_row, by_other = [], [], []
    for (ties, kinds), mine in found.items():
        by_tie += [_moves(mine, found[ties - {pair}, kinds]) for pair in ties if len(ties) > least]
        by_row += [_moves(mine, found[ties, one]) for one in _one_row_less(kinds)]
        by_other += [_moves(mine, found[ties, one]) for one in _one_row_replaced(kinds)]
    # Each is met: no noise is made for more than can be.
    assert _worst(by_tie) == {"degrees": 2, "nodes": 0, "ties": 3}
    assert _worst(by_row) == {"degrees": 0, "nodes": 1, "ties": 2}
    assert _worst(by_other) == {"degrees": 0, "nodes": 2, "ties": 4}
    assert _claimed(twin) == {"degrees": 2, "nodes": 1, "ties": 3}
    assert _claimed(replacing) == {"degrees": 2, "nodes": 2, "ties": 6}


def _drawn(generator: np.random.Generator) -> tuple[Ties, Kinds]:
    """A graph of eight nodes, most pairs tied and most nodes known."""
    ties = frozenset(one for one in combinations(range(8), 2) if generator.random() < 0.7)
    return ties, tuple(generator.choice(["a", "b", "a", "b", ""], 8).tolist())


def _near(generator: np.random.Generator) -> list[tuple[tuple[Ties, Kinds], tuple[Ties, Kinds]]]:
    """Graphs beside one with a tie less, and beside one with a row less."""
    pairs = []
    for _ in range(30):
        ties, told = _drawn(generator)
        kinds = tuple(one or None for one in told)
        gone = sorted(ties)[generator.integers(len(ties))]
        pairs.append(((ties, kinds), (ties - {gone}, kinds)))
        pairs += [((ties, kinds), (ties, one)) for one in _one_row_less(kinds)[:2]]
    return pairs


@pytest.mark.usefixtures("_measured_alone")
def test_where_nodes_have_more_ties_than_are_kept(recorded: Any) -> None:
    """Of 64 nodes 4 ties each are kept: a row of a node then moves more ties than a tie does."""
    twin = _twin(64)
    made = recorded(twin)
    found = [_moves(made.of(*one), made.of(*other))
             for one, other in _near(np.random.default_rng(2))]  # fmt: skip
    assert _worst(found) == _claimed(twin) == {"degrees": 2, "nodes": 1, "ties": 4}


@pytest.mark.usefixtures("_measured_alone")
def test_truncation_in_the_order_of_the_data_is_caught(
    recorded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted twin: the first ties of a node are those that lie first in the table."""
    monkeypatch.setattr(synthesize, "order_of", lambda graph, *_: np.arange(len(graph.edges)))
    twin = _twin(64)
    made = recorded(twin)
    found = [_moves(made.of(*one), made.of(*other))
             for one, other in _near(np.random.default_rng(2))]  # fmt: skip
    assert _worst(found)["ties"] > _claimed(twin)["ties"]


def test_a_release_measures_these_figures_alone_and_pays_for_each(recorded: Any) -> None:
    """Nothing else comes to a mechanism, also while a graph is drawn, and shares are the price."""
    twin = _twin(4)
    seen = recorded(twin).of(frozenset({(0, 1), (1, 2), (0, 2)}), ("a", "a", "b", None))
    assert [noise for noise, _ in seen] == [2, None, 1, 3]
    assert [one.tolist() for _, one in seen[2:]] == [[2, 1], [1, 2, 0]]
    assert total(twin.event, basic_price) == (Fraction(1), Fraction(0))
