"""No copy of a private table, of its ledger or of a judgement under way spends or draws again."""

from __future__ import annotations

import copy
import os
import pickle
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.fixtures.ledgers import BODY, code_of, pure

import sfumato as sf
from sfumato.errors import LedgerError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.memory import MemoryStore, memory_ledger
from sfumato.privacy.mechanisms.sparse_vector import SparseVector
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = """\
table = "visits"
unit = { column = "patient", max_rows = 2 }
[columns.patient]
role = "identifier"
kind = "integer"
nullable = false
"""
COPIES = [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))]


@pytest.mark.parametrize("copied", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_a_copy_of_a_private_table_is_refused_or_pays_from_the_same_budget(
    tmp_path: Path, copied: Callable[[Any], Any]
) -> None:
    (tmp_path / "visits.toml").write_text(SCHEMA)
    private = sf.protect(pa.table({"patient": [1, 2, 3]}), tmp_path / "visits.toml", epsilon=1)
    try:
        other = copied(private)
    except (LedgerError, TypeError, AttributeError, pickle.PicklingError):
        return
    other.query("SELECT COUNT(*) AS n FROM visits", epsilon=1)
    assert code_of(private.query, "SELECT COUNT(*) + 1 AS n FROM visits", epsilon=1) == (
        "budget_exhausted"
    )


@pytest.mark.parametrize("copied", COPIES, ids=["copy", "deepcopy", "pickle"])
def test_a_ledger_in_memory_has_no_copy(copied: Callable[[Any], Any]) -> None:
    assert code_of(copied, MemoryStore()) == "object_not_shareable"


def test_a_judgement_draws_under_its_receipt_alone() -> None:
    """A sparse vector that is copied, kept or forked judges nothing after its answer is stored."""
    ledger = memory_ledger()
    ledger.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    receipt = ledger.reserve(
        pure("1"), accounts=["visits"], principal="a", request_id="r", body_digest=BODY
    )
    run = SparseVector(epsilon=Fraction(1), cutoff=1).start(0, receipt.entropy())
    assert code_of(copy.deepcopy, run) == "object_not_shareable"
    assert code_of(pickle.dumps, run) == "object_not_shareable"
    if (child := os.fork()) == 0:
        os._exit(0 if code_of(run.ask, [5]) == "object_not_shareable" else 1)
    assert os.waitpid(child, 0)[1] == 0
    kept = copy.copy(run)
    ledger.store(receipt, b"stored")
    for one in (run, kept):
        assert code_of(one.ask, [5]) == "receipt_invalid"


def test_one_file_in_two_vaults_has_two_budgets_as_the_guide_says(tmp_path: Path) -> None:
    (tmp_path / "visits.toml").write_text(SCHEMA)
    (tmp_path / "visits.csv").write_text("patient\n1\n2\n3\n")
    for name in ("one", "two"):
        create(tmp_path / name)
        added = Registration(
            name="visits",
            source=str(tmp_path / "visits.csv"),
            schema=tmp_path / "visits.toml",
            epsilon=1,
        )
        added.add_to(tmp_path / name)
        with sf.open(tmp_path / name) as vault:
            private = vault.private("visits")
            private.query("SELECT COUNT(*) AS n FROM visits", epsilon=1)
            assert code_of(private.query, "SELECT COUNT(*) + 1 AS n FROM visits", epsilon=1) == (
                "budget_exhausted"
            )
    guide = (Path(__file__).parents[3] / "docs/guide/vault.md").read_text()
    said = " ".join(guide.split())
    assert "All of this holds **within one vault**." in said
    assert "the same file added to two vaults has two budgets" in said
    assert "for people who are in several, the promises add up" in said
