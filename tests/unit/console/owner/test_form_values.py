"""What is wrong with a form stands beside its field; what is not the sender's to mend is raised."""

from __future__ import annotations

import pytest

from sfumato.console.forms import Filled, words, wrong
from sfumato.errors import LedgerError, ParameterError, SourceError

FIELDS = ("name", "epsilon", "max_epsilon", "to")


@pytest.mark.parametrize(
    ("code", "field"),
    [
        ("name_taken", "name"),
        ("max_epsilon_wrong", "max_epsilon"),
        ("budget_out_of_range", "epsilon"),
        ("principal_unknown_here", "to"),
        ("parameter_not_number", ""),
        ("something_else", ""),
    ],
)
def test_a_refusal_finds_its_field(code: str, field: str) -> None:
    assert wrong(ParameterError(code, "No."), FIELDS) == {field: "No."}


def test_a_refusal_names_its_field_itself() -> None:
    error = ParameterError("parameter_out_of_range", "No.", parameter="epsilon")
    assert wrong(error, FIELDS) == {"epsilon": "No."}


def test_a_table_that_cannot_be_read_is_told_to_who_named_it() -> None:
    [said] = wrong(SourceError("file_unreadable", "It cannot be read."), FIELDS).values()
    assert said.startswith("It cannot be read.")


def test_a_ledger_that_is_away_is_not_the_senders_to_mend() -> None:
    with pytest.raises(LedgerError):
        wrong(LedgerError("ledger_failed", "It is away."), FIELDS)


def test_a_field_that_is_not_there_is_empty() -> None:
    assert Filled({"a": "b"})["c"] == ""
    assert words("a, b\n c,,") == ["a", "b", "c"]
