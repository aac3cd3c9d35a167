"""Refusals: a status for each kind, one form, and nothing but the public message."""

from __future__ import annotations

import json
import pickle
from pathlib import Path  # noqa: TC003  pytest gives it

import pytest

from sfumato import errors
from sfumato.server.problem_json import (
    RequestError,
    UnreadyError,
    failed_inside,
    headers_of,
    problem_of,
    status_of,
)

STATUSES = {
    errors.ParameterError("parameter_type_wrong", "m"): 422,
    errors.QueryError("table_unknown", "m"): 422,
    errors.SchemaError("column_unknown", "m"): 422,
    errors.SourceError("source_unready", "m"): 503,
    errors.BudgetError("budget_exhausted", "m"): 402,
    errors.PolicyError("permission_missing", "m"): 403,
    errors.PolicyError("token_refused", "m"): 401,
    errors.EngineError("answer_failed", "m"): 503,
    errors.LedgerError("ledger_unavailable", "m"): 503,
    errors.RolledBackError("ledger_rolled_back", "m"): 503,
    errors.LedgerError("answer_lost", "m"): 409,
    errors.ParameterError("request_reused", "m"): 409,
    RequestError(431, "request_too_large", "m"): 431,
    UnreadyError("server_busy", "m"): 503,
    failed_inside(): 500,
}


@pytest.mark.parametrize("error", STATUSES, ids=lambda one: one.code)
def test_a_refusal_has_the_status_of_its_kind(error: errors.SfumatoError) -> None:
    assert status_of(error) == STATUSES[error]
    assert problem_of(error)["status"] == STATUSES[error]


@pytest.mark.parametrize("error", [one for one in STATUSES if STATUSES[one] == 503], ids=str)
def test_what_cannot_be_done_now_says_when_and_whether_it_was_charged(
    error: errors.SfumatoError,
) -> None:
    assert ("Retry-After" in headers_of(error)) == (error.code != "answer_failed")
    free, charging = problem_of(error)["detail"], problem_of(error, charging=True)["detail"]
    assert free == f"{error.message} Nothing was charged."
    assert ("same Idempotency-Key" in charging) == isinstance(error, errors.LedgerError)
    said = type(error)(error.code, "The charge stays spent.")
    assert problem_of(said, charging=True)["detail"] == said.message


def test_neither_details_nor_passwords_nor_flags_are_told() -> None:
    error = errors.EngineError(
        "answer_failed",
        f"See postgresql://u:secret@h/d, ask with {errors.option('epsilon')}.",
        detail="bob has flu",
    )
    problem = str(problem_of(error))
    assert "flu" not in problem
    assert "secret" not in problem
    assert '"epsilon"' in problem
    assert "--" not in problem


def test_a_refusal_travels_between_processes() -> None:
    error = pickle.loads(pickle.dumps(RequestError(408, "request_slow", "m")))
    assert (error.status, error.code, error.message) == (408, "request_slow", "m")


def test_no_field_of_a_problem_shows_a_password_or_a_place(tmp_path: Path) -> None:
    error = errors.OutputError(
        "output_exists",
        "It is there.",
        given="'postgresql://u:secret@h/db'",
        hint=f"Look at '{tmp_path}/x.csv'.",
    )
    shown = json.dumps(problem_of(error))
    assert "secret" not in shown
    assert str(tmp_path) not in shown
    assert "x.csv" in shown
