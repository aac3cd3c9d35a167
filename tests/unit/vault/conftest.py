"""A method and a ledger of our own, small enough to see through."""

from __future__ import annotations

import shutil
from contextlib import chdir
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

from sfumato.methods.method import Plan
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.memory import memory_ledger
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.release.release import Guarantee, Provenance, Release
from sfumato.vault.answer import AnswerIndex
from sfumato.vault.gatekeeper import Gatekeeper

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from sfumato.methods.method import Dataset
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.ledger.base import Ledger
    from sfumato.privacy.noise.entropy import Entropy

SCHEMA = """\
table = "whatever"
unit = { column = "patient", max_rows = 2, max_groups = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
[columns.city]
kind = "text"
values = ["north", "south"]
nullable = false
[columns.cost]
kind = "integer"
bounds = [0, 100]
nullable = false
[columns.note]
kind = "text"
nullable = false
"""
ROWS = "patient,city,cost,note\n" + "".join(
    f"{place // 2},{'north' if place % 3 else 'south'},{place % 101},n{place % 4}\n"
    for place in range(4000)
)


@dataclass(frozen=True, repr=False)
class Counting(Plan):
    """A count of 1000, with noise."""

    epsilon: Fraction = Fraction(1, 2)
    about: str = "everybody"
    effect: Callable[[], None] = field(default=lambda: None)

    name = "counting"
    datasets = ("visits",)

    @property
    def parameters(self) -> Mapping[str, Any]:
        return {"about": self.about, "epsilon": str(self.epsilon)}

    @property
    def mechanism(self) -> Geometric:
        return Geometric(epsilon=self.epsilon, l1_sensitivity=Fraction(1))

    @property
    def event(self) -> Event:
        return self.mechanism.event

    @property
    def guarantee(self) -> Guarantee:
        return Guarantee("differential privacy", "hidden", {"epsilon": str(self.epsilon)})

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        assert datasets == {}
        self.effect()
        noisy = self.mechanism.steps(np.array([1000]), entropy)
        return Release(
            {"answer": pa.table({"n": noisy})},
            self.guarantee,
            Provenance(self.name, self.parameters, ""),
            {"n": {"sd": self.mechanism.stddev}},
        )


@pytest.fixture
def ledger() -> Ledger:
    """Data set 'visits' of epsilon 1; alice and bob may each spend 0.8 of their own."""
    made = memory_ledger()
    made.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    for principal in ("alice", "bob"):
        budget = Budget.for_epsilon_delta(epsilon="0.8")
        made.open_account(f"visits/{principal}", budget=budget)
    return made


@pytest.fixture
def gatekeeper(ledger: Ledger) -> Gatekeeper:
    return Gatekeeper(ledger, AnswerIndex())


@pytest.fixture
def counting() -> type[Counting]:
    return Counting


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder, to stand in, with a table of 4,000 rows and its schema."""
    (tmp_path / "visits.csv").write_text(ROWS)
    (tmp_path / "visits.toml").write_text(SCHEMA)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="module")
def as_made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Callable[[], None]], Path]:
    """Gives a folder as it was when it was made, once for a module.

    It is always the same one, because a ledger knows where its sources lie.
    """
    place = tmp_path_factory.mktemp("made") / "own"
    kept = tmp_path_factory.mktemp("kept") / "own"

    def stand(make: Callable[[], None]) -> Path:
        if kept.exists():
            shutil.rmtree(place)
            shutil.copytree(kept, place)
            return place
        place.mkdir()
        (place / "visits.csv").write_text(ROWS)
        (place / "visits.toml").write_text(SCHEMA)
        with chdir(place):
            make()
        shutil.copytree(place, kept)
        return place

    return stand
