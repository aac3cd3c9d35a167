"""Graphs of networkx come as tables and go back the same; what is not there is said."""

from __future__ import annotations

import subprocess
import sys

import networkx as nx  # type: ignore[import-untyped]  # it has no types
import pytest

from sfumato.errors import ParameterError
from sfumato.methods.graph import from_networkx, to_networkx

_WITHOUT = """
import sys
sys.modules["scipy"] = None
import importlib.util as found
there = found.find_spec
found.find_spec = lambda name, package=None: None if name == "scipy" else there(name, package)
from sfumato.errors import ParameterError
try:
    import sfumato.methods.graph
except ParameterError as error:
    print(error.code, "sfumato[graph]" in str(error))
"""


def test_a_graph_comes_back() -> None:
    karate = nx.karate_club_graph()
    tables = from_networkx(karate)
    assert tables["edges"].num_rows == 78
    assert tables["edges"].column_names == ["from", "to"]
    back = to_networkx(tables)
    assert nx.utils.graphs_equal(nx.Graph(back.edges), nx.Graph(karate.edges))
    assert dict(back.nodes(data="club")) == dict(karate.nodes(data="club"))
    assert to_networkx(tables["edges"]).number_of_nodes() == 34


@pytest.mark.parametrize("graph", [[(1, 2)], nx.Graph([(1, "one")])])
def test_what_is_no_such_graph_is_refused(graph: object) -> None:
    with pytest.raises(ParameterError) as refusal:
        from_networkx(graph)
    assert refusal.value.code == "linked_table_invalid"


def test_a_missing_package_is_named() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True)
    assert done.stdout.split() == ["package_missing", "True"]
