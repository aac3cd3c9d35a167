"""Linear reconstruction: who is ill, from how many are ill in random halves of the people.

Dinur & Nissim 2003: enough counts that are too exact give away everybody. The bits that are
nearest to all counts are found by least squares.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from sfumato.demo.draws import bits
from sfumato.vault.registration import Registration, add_public, create
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

HALVES = 600
"""How many random halves of the people are counted."""

_EACH = 150
_BUDGET = 10
_QUESTION = """
SELECT half, COUNT(*) AS n FROM people JOIN halves USING (person) WHERE ill GROUP BY half
"""
_WHOLE = '[columns.{}]\nkind = "integer"\nbounds = [0, {}]\nnullable = false\n'


def recovered(people: pa.Table, epsilons: Sequence[float]) -> tuple[float, list[float]]:
    """The share of people whose illness is found: from exact counts, and from private ones."""
    ill = _chosen(people)
    places = np.arange(HALVES * len(ill), dtype=np.uint64)
    inside = (bits("half", places) >> np.uint64(63)).reshape(HALVES, len(ill)) == 1
    exact = inside @ ill.astype(np.int64)
    with TemporaryDirectory(prefix="sfumato-") as home:
        answers = _private(Path(home), ill, inside, epsilons)
    return _share(inside, exact, ill), [_share(inside, counts, ill) for counts in answers]


def _chosen(people: pa.Table) -> NDArray[np.bool_]:
    """As many ill as healthy people, so that a blind guess is right half of the time."""
    ill = pc.not_equal(people["disease"], "none").to_numpy()
    each = min(_EACH, int(ill.sum()), int((~ill).sum()))
    rows = np.concatenate([np.flatnonzero(ill)[:each], np.flatnonzero(~ill)[:each]])
    return np.asarray(ill[np.sort(rows)])


def _share(inside: NDArray[np.bool_], counts: NDArray[Any], ill: NDArray[np.bool_]) -> float:
    found = np.linalg.lstsq(inside.astype(float), counts.astype(float), rcond=None)[0]
    return float(((found >= 0.5) == ill).mean())


def _private(
    home: Path, ill: NDArray[np.bool_], inside: NDArray[np.bool_], epsilons: Sequence[float]
) -> list[NDArray[Any]]:
    """The same counts from a vault that holds the people; who is in which half is public."""
    person = _WHOLE.format("person", len(ill) - 1)
    half, members = np.nonzero(inside)
    held = {
        "people": (
            {"person": np.arange(len(ill)), "ill": ill},
            '[columns.ill]\nkind = "boolean"\n',
        ),
        "halves": ({"person": members, "half": half}, _WHOLE.format("half", HALVES - 1)),
    }
    for name, (columns, declared) in held.items():
        parquet.write_table(pa.table(columns), home / f"{name}.parquet")
        (home / f"{name}.toml").write_text(f'table = "{name}"\n{person}{declared}')
    vault = home / "vault"
    create(vault)
    Registration(
        name="people",
        source=str(home / "people.parquet"),
        schema=home / "people.toml",
        epsilon=_BUDGET,
    ).add_to(vault)
    add_public(
        vault,
        name="halves",
        source=str(home / "halves.parquet"),
        schema=home / "halves.toml",
        keys={("person",): int(inside.sum(axis=0).max())},
    )
    with open_vault(vault) as opened:
        return [opened.query(_QUESTION, epsilon=one).table["n"].to_numpy() for one in epsilons]
