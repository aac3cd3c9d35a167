"""Who is in published counts: exact ones of small tables tell it, noisy ones do not."""

from __future__ import annotations

from itertools import combinations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.attack.games import bound
from sfumato.attack.runner import attack
from sfumato.data.schema.column import Column, Kind, Role
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError
from sfumato.release.release import Guarantee, Provenance, Release

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from sfumato.attack.finding import Finding

    Attacked = Callable[..., Finding]

TRAITS = [f"c{n}" for n in range(8)]
SCHEMA = Schema(
    "few",
    (
        *(Column(name, Kind.TEXT, Role.QUASI, Values(tuple("abcdef"))) for name in TRAITS),
        Column("pay", Kind.INTEGER, Role.SENSITIVE, Bounds(0, 100, 10)),
    ),
)
PAIRS = list(combinations([*TRAITS, "pay"], 2))


def people(draws: np.random.Generator, size: int) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {
        name: draws.choice(list("abcdef"), size).tolist() for name in TRAITS
    }
    return {**found, "pay": draws.integers(-5, 120, size).tolist()}


def counts(
    rows: dict[str, list[Any]],
    columns: Sequence[str],
    draws: np.random.Generator,
    scale: float = 0.0,
) -> pa.Table:
    """A table of all cells as `publish` writes it, with Laplace noise; pay goes to its grid."""
    domains = [list(range(0, 101, 10)) if name == "pay" else list("abcdef") for name in columns]
    cells = list(product(*domains))
    held = dict.fromkeys(cells, 0)
    for cell in zip(*(map(_point, rows[name]) for name in columns), strict=True):
        held[cell] += 1
    noisy = np.array(list(held.values())) + draws.laplace(0, scale, len(cells))
    made = {name: [cell[place] for cell in cells] for place, name in enumerate(columns)}
    return pa.table({**made, "count": noisy})


def _point(value: Any) -> Any:
    return value if isinstance(value, str) else min(max(int((value + 5) // 10), 0), 10) * 10


def saved(
    folder: Path,
    tables: dict[str, pa.Table],
    stddevs: dict[str, float] | None = None,
    method: str = "publish marginals",
    **promise: str,
) -> Path:
    """A release made by hand."""
    error = {"tables": {name: {"sd": one} for name, one in (stddevs or {}).items()}}
    guarantee = Guarantee("differential privacy", "epsilon", promise)
    release = Release(tables, guarantee, Provenance(method, {}, ""), error, None)
    release.save(folder)
    return folder


@pytest.fixture
def rows(draws: np.random.Generator) -> dict[str, dict[str, list[Any]]]:
    return {"original": people(draws, 80), "control": people(draws, 400)}


def test_exact_counts_of_few_people_tell_who_they_are(
    found: Attacked, rows: dict[str, Any], draws: np.random.Generator, tmp_path: Path
) -> None:
    tables = {",".join(pair): counts(rows["original"], pair, draws) for pair in PAIRS}
    told = found("membership", saved(tmp_path / "exact", tables), SCHEMA, **rows)
    assert told.success.low > 0.75
    assert told.success.tried == 160  # one score: nobody is needed to choose among several
    assert told.bound is None


def test_counts_at_a_small_epsilon_tell_no_more_than_a_guess(
    found: Attacked, rows: dict[str, Any], draws: np.random.Generator, tmp_path: Path
) -> None:
    scale = len(PAIRS) / 0.5
    tables = {",".join(pair): counts(rows["original"], pair, draws, scale) for pair in PAIRS}
    folder = saved(tmp_path / "noisy", tables, dict.fromkeys(tables, scale * 2**0.5), epsilon="1/2")
    told = found("membership", folder, SCHEMA, **rows)
    assert told.success.low <= told.baseline.high
    assert told.bound == bound(0.5) == pytest.approx(0.6225, abs=1e-4)
    assert not told.passes_bound
    assert any("epsilon 0.5 nobody can be right" in one for one in told.remarks)


def test_numbers_are_counted_at_their_points(
    found: Attacked, draws: np.random.Generator, tmp_path: Path
) -> None:
    """Of one column alone: a person's pay is at the nearest point, what is beyond at the ends."""
    real: dict[str, list[Any]] = {"pay": [14.0, 15, 96, -5] * 10, "c0": ["a"] * 40}
    others = {"pay": [24, 25, 36, 45] * 20, "c0": ["a"] * 80}
    table = counts(real, ["pay"], draws)
    told = found(
        "membership",
        saved(tmp_path / "pay", {"pay": table}),
        SCHEMA,
        original=real,
        control=others,
    )
    # 24 is counted where 15 is: who was drawn at random shares no cell but that.
    assert told.success.value == 0.875


def test_noise_of_a_table_makes_it_count_less(
    found: Attacked, rows: dict[str, Any], draws: np.random.Generator, tmp_path: Path
) -> None:
    """Beside exact tables, ones of pure noise do no harm where their deviation is told."""
    exact = {",".join(pair): counts(rows["original"], pair, draws) for pair in PAIRS[:15]}
    noise = {f"n{n}": counts(rows["original"], PAIRS[20], draws, 200.0) for n in range(5)}
    stddevs = {**dict.fromkeys(exact, 0.0), **dict.fromkeys(noise, 283.0)}
    folders = [
        saved(tmp_path / name, {**exact, **noise}, said)
        for name, said in (("a", stddevs), ("b", {}))
    ]
    knows, not_told = (found("membership", one, SCHEMA, **rows) for one in folders)
    assert knows.success.value > not_told.success.value + 0.1


def test_tables_that_do_not_count_all_people_by_values_are_not_read(
    rows: dict[str, Any], draws: np.random.Generator, tmp_path: Path
) -> None:
    ranges = pa.table({"pay_low": [0, 50], "pay_high": [49, 100], "count": [40, 40]})
    missing = pa.table({"pay": pa.array([None], pa.int64()), "count": [3]})
    boxes = saved(tmp_path / "boxes", {"boxes": ranges, "missing": missing})
    with pytest.raises(ParameterError, match="by single values"):
        attack("membership", boxes, SCHEMA, **rows)
    # An answer may be of some of the rows only.
    answer = saved(
        tmp_path / "answer", {"a": counts(rows["original"], ["c0"], draws)}, None, "query"
    )
    with pytest.raises(ParameterError, match="by single values"):
        attack("membership", answer, SCHEMA, **rows)


def test_all_attacks_run_membership_on_counts(
    rows: dict[str, Any], draws: np.random.Generator, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "one", {"c0": counts(rows["original"], ["c0"], draws)})
    every: Any = attack("all", folder, SCHEMA, **rows)
    assert [one.attack for one in every] == ["membership"]
    assert "run membership" in every.not_run["link"]
    alone: Any = attack("all", folder, SCHEMA, original=rows["original"])
    assert "control=" in alone.not_run["membership"]


def test_the_bound_is_of_any_epsilon() -> None:
    assert bound(1.0, 0.1) == pytest.approx((np.e + 0.1) / (1 + np.e))
    assert bound(2000.0) == 1.0
