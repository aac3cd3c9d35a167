"""Forms of requests: the families' fields as they are written in JSON."""

from __future__ import annotations

from dataclasses import fields

import pytest

from sfumato.errors import ParameterError
from sfumato.methods.learn.catalogue import KINDS
from sfumato.server.request_schemas import checked, family_form, family_values
from sfumato.vault.families import FAMILIES


def test_a_form_says_what_a_family_takes_by_its_own_names() -> None:
    form = family_form(FAMILIES["query"])
    asked = checked(form, {"sql": "SELECT 1", "epsilon": "0.1", "purpose": "care"})
    assert family_values(FAMILIES["query"], asked) == {"asked": "SELECT 1", "epsilon": "0.1"}
    assert [one.name for one in form if one.required] == ["sql"]
    assert "principal" not in {one.name for one in form}


@pytest.mark.parametrize("name", ["publish", "above", "synthesize"])
def test_no_file_is_taken_by_its_name(name: str) -> None:
    """It would be one of the server's: nothing that a body says may become a path."""
    form = family_form(FAMILIES[name])
    assert "workload" in {one.name for one in form}
    with pytest.raises(ParameterError) as refusal:
        checked(form, {"dataset": "people", "kind": "tree", "columns": ["age"],
                       "workload": "/etc/passwd", "threshold": 3})  # fmt: skip
    assert refusal.value.code in {"request_malformed", "option_unknown"}


def test_every_family_has_a_form_with_words_for_people() -> None:
    for family in FAMILIES.values():
        form = family_form(family)
        assert len({one.name for one in form}) == len(form)
        assert all(one.told and one.schema for one in form)


def test_every_option_of_a_kind_of_model_can_be_sent() -> None:
    """What the command takes as --option, a client can say too."""
    sent = {one.name for one in family_form(FAMILIES["learn"])}
    found = {option.name for kind in KINDS.values() for option in fields(kind.options)}
    assert {"clusters", "components"} <= found <= sent
