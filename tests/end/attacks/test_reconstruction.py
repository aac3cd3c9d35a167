"""Linear reconstruction (Dinur & Nissim 2003): counts over random halves of the people."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv
import pytest
from scipy.optimize import linprog

import sfumato as sf
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration, add_public

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from numpy.typing import NDArray

PEOPLE, SUBSETS = 96, 384
SCHEMA = """\
table = "people"
[columns.person]
kind = "integer"
bounds = [0, 95]
nullable = false
[columns.sick]
kind = "boolean"
nullable = false
"""
SUBSETS_SCHEMA = """\
table = "subsets"
[columns.person]
kind = "integer"
bounds = [0, 95]
nullable = false
[columns.subset]
kind = "integer"
bounds = [0, 383]
nullable = false
"""
QUESTION = """
SELECT subset, COUNT(*) AS n FROM people JOIN subsets USING (person) WHERE sick GROUP BY subset
"""


@pytest.fixture
def inside() -> NDArray[Any]:
    """Which person is in which subset: half of them, at random, known to all."""
    return np.random.default_rng(11).random((SUBSETS, PEOPLE)) < 0.5


@pytest.fixture
def sick(secrets: Callable[[int], NDArray[Any]]) -> NDArray[Any]:
    return secrets(PEOPLE).astype(bool)


@pytest.fixture
def vault(
    inside: NDArray[Any], sick: NDArray[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[sf.Vault]:
    monkeypatch.chdir(tmp_path)
    subset, person = np.nonzero(inside)
    tables = {
        "people": pa.table({"person": np.arange(PEOPLE), "sick": sick}),
        "subsets": pa.table({"person": person, "subset": subset}),
    }
    for name, schema in (("people", SCHEMA), ("subsets", SUBSETS_SCHEMA)):
        arrow_csv.write_csv(tables[name], f"{name}.csv")
        Path(f"{name}.toml").write_text(schema)
    create(Path("vault"))
    Registration(name="people", source="people.csv", schema=Path("people.toml"), epsilon=8).add_to(
        Path("vault")
    )
    add_public(
        Path("vault"),
        name="subsets",
        source="subsets.csv",
        schema=Path("subsets.toml"),
        keys={("person",): int(inside.sum(axis=0).max())},
    )
    with sf.open("vault") as opened:
        yield opened


def reconstruct(inside: NDArray[Any], counts: NDArray[Any]) -> NDArray[Any]:
    """The bits whose counts are nearest to the answers, by linear programming in the L1 norm."""
    subsets, people = inside.shape
    matrix = inside.astype(float)
    slack = np.eye(subsets)
    found = linprog(
        np.concatenate([np.zeros(people), np.ones(subsets)]),
        A_ub=np.block([[matrix, -slack], [-matrix, -slack]]),
        b_ub=np.concatenate([counts, -counts]),
        bounds=[(0, 1)] * people + [(0, None)] * subsets,
        method="highs",
    )
    assert found.x is not None
    return np.asarray(found.x[:people] >= 0.5)


def test_exact_answers_give_away_nearly_every_bit(inside: NDArray[Any], sick: NDArray[Any]) -> None:
    counts = (inside @ sick.astype(int)).astype(float)
    assert (reconstruct(inside, counts) == sick).mean() > 0.98
    # Even answers that are off by up to 2, which is what careless rounding does.
    off = np.random.default_rng(13).integers(-2, 3, SUBSETS)
    assert (reconstruct(inside, counts + off) == sick).mean() > 0.95


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_private_answers_give_away_no_more_than_theory_allows(
    epsilon: float,
    vault: sf.Vault,
    inside: NDArray[Any],
    sick: NDArray[Any],
    most_right: Callable[[float, int], int],
) -> None:
    answer = vault.query(QUESTION, epsilon=epsilon)
    counts = answer.table["n"].to_numpy().astype(float)
    assert len(counts) == SUBSETS
    assert (reconstruct(inside, counts) == sick).sum() <= most_right(epsilon, PEOPLE)
