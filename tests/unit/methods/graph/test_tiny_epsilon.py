"""What would be noise alone is refused, before anything is charged."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import sfumato as sf
from sfumato.data.schema.schema import Edges
from sfumato.errors import ParameterError
from sfumato.methods.graph.edge_mechanisms import LEAST_OF_POWERS, SmoothCount
from sfumato.methods.graph.subgraphs import StarSensitivity
from sfumato.testing.entropy import SeededEntropy

ENDS = tuple(
    sf.Column(one, sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False) for one in ("from", "to")
)
SCHEMA = sf.Schema("friends", ENDS, form=Edges("from", "to"))


@pytest.mark.parametrize(
    ("kind", "options", "epsilon"),
    [
        ("triangles", {}, 0.00009),
        ("triangles", {"mechanism": "smooth"}, 0.00009),
        ("stars", {}, 0.00009),
        ("stars", {"k": 5}, 0.0009),
        ("cliques", {"k": 4}, 0.0009),
        ("graph", {"nodes": 5}, 0.00009),
    ],
)
def test_a_tiny_epsilon_is_refused_and_costs_nothing(
    kind: str, options: dict[str, Any], epsilon: float
) -> None:
    rows = pa.table({"from": [0, 1, 0], "to": [1, 2, 2]})
    private = sf.protect(sf.read(rows, schema=SCHEMA), epsilon=1)
    with pytest.raises(ParameterError, match=r"at least 0\.00") as refused:
        if kind == "graph":
            private.synthesize(epsilon=epsilon, **options)
        else:
            private.publish(kind, epsilon=epsilon, **options)
    assert refused.value.code == "parameter_out_of_range"
    assert private.remaining["epsilon"] == 1


def test_noise_at_the_floor_fits_a_whole_number_of_64_bits() -> None:
    noise = SmoothCount(epsilon=LEAST_OF_POWERS, power=4)
    at = StarSensitivity(((2, 2),), 5)
    found = [noise.sample(0, at, SeededEntropy(seed)) for seed in range(5)]
    assert 0 < max(map(abs, found)) < 2**63
