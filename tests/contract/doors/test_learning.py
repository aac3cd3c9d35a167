"""What is learnt is the same by both doors: the model, its file, and what it tells of rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.contract.doors.alike import assert_alike
from tests.contract.doors.conftest import people

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.vault.vault_api import AnyVault

MODELS: dict[str, dict[str, Any]] = {
    "naive-bayes": {"features": ["age", "city"], "target": "smoker", "epsilon": 0.1},
    "linear": {"features": "age,smoker", "target": "income", "epsilon": "0.11"},
    "kmeans": {"features": ["age", "income"], "clusters": 2, "rho": 0.01, "delta": 1e-8},
}


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_is_the_same_by_both_doors(
    local: AnyVault, remote: AnyVault, kind: str, tmp_path: Path
) -> None:
    asked = MODELS[kind]
    fresh = remote.private("people").learn(kind, **asked)
    again = local.private("people").learn(kind, **asked)
    assert (fresh.charged, again.charged) == (True, False)
    assert_alike(fresh, again)
    rows = people()
    assert fresh.predict(rows).tolist() == again.predict(rows).tolist()
    for door, learned in (("here", again), ("there", fresh)):
        assert learned.save(tmp_path / f"{door}.json") == [tmp_path / f"{door}.json"]
    assert (tmp_path / "here.json").read_bytes() == (tmp_path / "there.json").read_bytes()


@pytest.mark.parametrize(
    ("kind", "asked"),
    [
        ("trees", {"features": "age", "target": "smoker"}),
        ("naive-bayes", {"features": "age"}),
        ("naive-bayes", {"target": "smoker"}),
        ("naive-bayes", {"features": "aeg", "target": "smoker"}),
        ("naive-bayes", {"features": "smoker", "target": "smoker"}),
        ("kmeans", {"features": "age", "target": "smoker"}),
        ("kmeans", {"features": "age", "clusters": 0}),
        ("kmeans", {"features": "age", "petals": 3}),
        ("linear", {"features": "age", "target": "city"}),
    ],
)
def test_what_cannot_be_learnt_is_refused_alike(
    local: AnyVault, remote: AnyVault, kind: str, asked: dict[str, Any]
) -> None:
    before = local.private("people").remaining
    said = []
    for door in (local, remote):
        with pytest.raises(SfumatoError) as refused:
            door.private("people").learn(kind, **asked, epsilon=0.1)
        said.append((refused.value.code, refused.value.message))
    assert said[0] == said[1]
    assert local.private("people").remaining == before
