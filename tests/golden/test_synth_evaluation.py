"""The errors of synthetic Adults as they are published, by the same definitions."""

from __future__ import annotations

import json
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pytest

import sfumato as sf
from sfumato.attack.evaluation.evaluate import Form, compare
from sfumato.data.engines.sources import open_duckdb

if TYPE_CHECKING:
    from sfumato.attack.evaluation.result import Evaluation

DATA = Path(__file__).parents[3] / "shared" / "data"
ADULT, DOMAIN = (DATA / "adult_coded" / name for name in ("adult.csv", "adult-domain.json"))
PUBLISHED = DATA / "dp" / "synth_errors.json"

pytestmark = pytest.mark.skipif(not PUBLISHED.exists(), reason="needs ../shared/data")


@pytest.fixture(scope="module")
def adult() -> pd.DataFrame:
    return pd.read_csv(ADULT)


@pytest.fixture(scope="module")
def sizes() -> dict[str, int]:
    found: dict[str, int] = json.loads(DOMAIN.read_text())
    return found


def evaluated(adult: pd.DataFrame, made: pd.DataFrame, sizes: dict[str, int]) -> Evaluation:
    columns = tuple(
        sf.Column(name, sf.Kind.INTEGER, domain=sf.Bounds(0, size - 1), nullable=False)
        for name, size in sizes.items()
    )
    return compare(open_duckdb(adult), open_duckdb(made), columns, Form((), {}))


def published(engine: str) -> tuple[float, float, float]:
    results = json.loads(PUBLISHED.read_text())["results"]
    one = next(one for one in results if one["engine"] == engine)
    return one["tvd1_mean"], one["tvd2_mean"], one["tvd3_mean"]


def test_a_bootstrap_is_off_by_what_is_published_and_by_what_is_expected(
    adult: pd.DataFrame, sizes: dict[str, int]
) -> None:
    draw = np.random.default_rng(0)
    made = adult.iloc[draw.integers(0, len(adult), len(adult))]
    found = evaluated(adult, made, sizes)
    for size, figure in zip((1, 2, 3), published("bootstrap"), strict=True):
        assert found.tvd(size) == pytest.approx(figure, rel=0.12)
        assert found.sets[size].mean.floor == pytest.approx(figure, rel=0.12)
    assert found.propensity == pytest.approx(1, abs=0.15)
    assert found.sets[3].looked_at == 364
    assert [one.coding.told for one in found.columns] == [""] * 14


def test_a_uniform_table_is_off_by_what_is_published(
    adult: pd.DataFrame, sizes: dict[str, int]
) -> None:
    draw = np.random.default_rng(1)
    made = pd.DataFrame({name: draw.integers(0, size, len(adult)) for name, size in sizes.items()})
    found = evaluated(adult, made, sizes)
    for size, figure in zip((1, 2, 3), published("uniform"), strict=True):
        assert found.tvd(size) == pytest.approx(figure, abs=0.002)


def test_the_definition_written_out(adult: pd.DataFrame, sizes: dict[str, int]) -> None:
    """By another way of counting, on tables of different sizes."""
    draw = np.random.default_rng(2)
    real = adult.sample(3_000, random_state=1)[[*sizes][:6]]
    made = real.sample(1_000, random_state=2).apply(lambda one: draw.permutation(one))
    found = evaluated(real, made, {name: sizes[name] for name in real})
    for size in (1, 2, 3):
        far = []
        for names in combinations(real, size):
            shares = [one.value_counts([*names], normalize=True) for one in (real, made)]
            far.append(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)
        assert found.tvd(size) == pytest.approx(np.mean(far))
