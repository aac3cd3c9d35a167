"""Real graphs: published figures; the error of triangles by both mechanisms; degrees."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow.csv as pacsv
import pytest

from sfumato.methods.graph.degrees import DegreeSequence, sorted_degrees
from sfumato.methods.graph.edge_mechanisms import LadderCount, smooth_sensitivity
from sfumato.methods.graph.simple_graph import Graph, read_graph
from sfumato.methods.graph.subgraphs import TriangleSensitivity, stars, triangles
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from sfumato.methods.publish.request import FormRequest

FOLDER = Path(__file__).parents[5] / "shared" / "data" / "graphs"
FIGURES = {
    "lastfm_asia": (40_433, 91, 679_080, 900, 7_624),
    "facebook_pages": (794_953, 653, None, 2_200, 22_470),
    "deezer_hu": (98_087, 28, 3_166_684, 1_450, 47_538),
}
THREES = {"lastfm_asia": 14_499_165, "deezer_hu": 22_108_535}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not FOLDER.exists(), reason="the graphs of ../shared are not here"),
]


def _graph(name: str) -> Graph:
    return read_graph(pacsv.read_csv(FOLDER / f"{name}_edges.csv.gz"))


@pytest.mark.parametrize("name", FIGURES)
def test_figures_and_errors(name: str) -> None:
    count, local, two, worst, nodes = FIGURES[name]
    graph, entropy = _graph(name), SeededEntropy(11)
    sensitivity = TriangleSensitivity.of(graph)
    assert (triangles(graph), sensitivity(0)) == (count, local)
    assert two is None or stars(graph, 2) == two
    assert THREES.get(name, stars(graph, 3)) == stars(graph, 3)
    for epsilon in (Fraction(1, 10), Fraction(1)):
        ladder = LadderCount(epsilon=epsilon)
        off = [abs(ladder.sample(count, sensitivity, entropy) - count) for _ in range(101)]
        # As printed, noise 1 / (1 + z^2) of scale 6 S / epsilon at beta = epsilon / 6: half of it
        # lies within its scale.
        printed = 6 / float(epsilon) * smooth_sensitivity(sensitivity, float(epsilon) / 6)
        assert np.median(off) <= printed
    noise = Geometric(epsilon=Fraction(1), l1_sensitivity=Fraction(2))
    method = DegreeSequence(cast("FormRequest", None), nodes, noise)
    truth = sorted_degrees(graph, nodes)
    errors = [float(((method.fitted(graph, entropy) - truth) ** 2).sum()) for _ in range(40)]
    assert np.mean(errors) <= worst
