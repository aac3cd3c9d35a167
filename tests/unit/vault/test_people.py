"""People of a vault: added, given budgets, let go; and what each may see and ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.vault.registration import Registration, create

if TYPE_CHECKING:
    from collections.abc import Iterator

CLINIC = Path("clinic")
COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
BY = {"operator": "ann"}
HISTOGRAM: dict[str, Any] = {"columns": ["city"], "epsilon": "0.1"}


@pytest.fixture
def vault(files: Path) -> Iterator[sf.Vault]:
    create(CLINIC)
    for name, epsilon in (("visits", "2"), ("others", "4")):
        Registration(
            name=name, source=f"{name}.csv", schema=Path("visits.toml"), epsilon=epsilon
        ).add_to(CLINIC) if (files / f"{name}.csv").write_bytes(
            (files / "visits.csv").read_bytes() + (b"" if name == "visits" else b"1,north,1\n")
        ) else None
    path = files / CLINIC / "vault.toml"
    path.write_text(path.read_text() + '[principals.old.budgets.visits]\nepsilon = "1"\n')
    with sf.open(CLINIC) as opened:
        yield opened
