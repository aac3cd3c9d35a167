"""The neighbourhood attack on a graph without names, and on the made-up one."""

from __future__ import annotations

from contextlib import closing

import networkx as nx  # type: ignore[import-untyped]  # it has no types
import pyarrow as pa

import sfumato as sf
from sfumato.attack.finding import Finding
from sfumato.data.schema.schema import Edges
from sfumato.methods.graph import from_networkx

ENDS = tuple(
    sf.Column(one, sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False) for one in ("from", "to")
)
SCHEMA = sf.Schema("friends", ENDS, form=Edges("from", "to"))


def test_names_that_are_numbers_protect_nobody_and_made_up_ties_do() -> None:
    """The attack knows the ends of edges by the form; a twin is no better than a guess."""
    made = nx.gnm_random_graph(120, 480, seed=2)
    table = from_networkx(nx.relabel_nodes(made, {one: one + 1 for one in made}))["edges"]
    with closing(sf.read(table, schema=SCHEMA)) as friends:
        before = friends.attack("neighbourhood")
        twin = sf.protect(friends, epsilon=4).synthesize(nodes=120, epsilon=4).table
        with closing(sf.read(twin, schema=SCHEMA)) as released:
            after = released.attack("neighbourhood", original=friends)
    assert isinstance(before, Finding)
    assert isinstance(after, Finding)
    assert before.success.value > 0.9
    assert after.success.value < 0.05
    assert isinstance(twin, pa.Table)
