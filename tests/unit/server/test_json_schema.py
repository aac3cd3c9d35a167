"""Values against the part of JSON Schema that forms are written in."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfumato.errors import ParameterError
from sfumato.server.json_schema import EXACT
from sfumato.server.json_schema import check as check_by
from sfumato.server.request_schemas import described, family_form
from sfumato.vault.families import FAMILIES


def check(value: object, schema: dict[str, Any], place: str) -> Any:
    return check_by(value, schema, place, "request_malformed")


def refused(value: object, schema: dict[str, Any]) -> tuple[str, str]:
    with pytest.raises(ParameterError) as refusal:
        check(value, schema, "'x'")
    return refusal.value.code, refusal.value.message


def test_numbers_come_as_methods_take_them() -> None:
    assert check(Decimal("5.0"), {"type": "integer"}, "x") == 5
    assert isinstance(check(Decimal("5.0"), {"type": "integer"}, "x"), int)
    exact = check(Decimal("0.1"), {"type": "number", "format": EXACT}, "x")
    assert isinstance(exact, Decimal)
    assert isinstance(check(Decimal("0.1"), {"type": "number"}, "x"), float)
    assert check([Decimal("0.5"), {"a": [2**80]}], {}, "x") == [0.5, {"a": [float(2**80)]}]


def test_what_does_not_fit_is_told_with_its_place_and_what_would() -> None:
    assert refused(True, {"type": "number"}) == (
        "request_malformed",
        "'x' must be a number, not true.",
    )
    assert refused([1, "a"], {"type": "array", "items": {"type": "integer"}})[1] == (
        "'x'[1] must be a whole number, not 'a'."
    )
    either = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
    assert refused(5, either)[1] == "'x' must be a text or a list of texts, not 5."
    assert refused(["a", 5], either)[1] == "'x'[1] must be a text, not 5."
    assert refused("c", {"type": "string", "enum": ["a", "b"]})[1].startswith("'x' must be one of")
    assert refused(7, {"type": "integer", "minimum": 0, "maximum": 5})[1] == (
        "'x' must be from 0 to 5, not 7."
    )
    assert refused(Decimal("1e9999"), {"type": "number"})[1] == (
        "'x' must be a number of ordinary size."
    )
    form = {"type": "object", "properties": {"age": {}}, "additionalProperties": False}
    assert refused({"agee": 1}, form) == (
        "option_unknown",
        "'x'.agee is not known here; did you mean 'age'?",
    )
    assert refused({}, {**form, "required": ["age"]})[0] == "parameter_missing"
    assert (
        refused(1, {"type": "string", "x-code": "parameter_type_wrong"})[0]
        == "parameter_type_wrong"
    )


def test_a_message_quotes_no_more_than_a_little() -> None:
    long = {"type": "object", "properties": {"a": {}}, "additionalProperties": False}
    assert len(refused({"n" * 10_000: 1}, long)[1]) < 200
    assert len(refused("v" * 10_000, {"type": "integer"})[1]) < 200


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize("name", FAMILIES)
def test_forms_are_checked_as_anyone_else_would_check_them(name: str) -> None:
    form = described(family_form(FAMILIES[name]))
    validator = jsonschema_rs.validator_for(form)
    fields = st.sampled_from(sorted(form["properties"]))

    @given(st.dictionaries(fields, ANYTHING, max_size=3))
    def agree(values: dict[str, object]) -> None:
        needed = {"dataset": "people", "sql": "a", "kind": "tree", "columns": "a", "threshold": 1}
        needed |= {"workload": [], "program": "a", "output": [{"low": 0, "high": 1}]}
        whole = {**{one: needed[one] for one in form.get("required", ())}, **values}
        try:
            check(whole, form, "")
        except ParameterError:
            assert not validator.is_valid(whole)
        else:
            assert validator.is_valid(whole)

    agree()
