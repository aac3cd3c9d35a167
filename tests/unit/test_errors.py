"""A sentence names parameters; each door spells them its own way, and fields travel."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest

from sfumato.cli.process import as_flag, in_flags
from sfumato.client.error_reader import refused
from sfumato.errors import ParameterError, in_fields, option, options_in
from sfumato.server.problem_json import problem_of


@pytest.mark.parametrize(
    ("named", "in_python", "as_field", "flag"),
    [
        (option("epsilon"), "epsilon=", '"epsilon"', "--epsilon"),
        (option("max_rows", 10), "max_rows=10", '"max_rows": 10', "--max-rows 10"),
        (option("delta", 1e-7), "delta=1e-7", '"delta": 1e-7', "--delta 1e-7"),
        (option("overwrite", True), "overwrite=True", '"overwrite": true', "--overwrite"),
        (option("unit", "patient"), "unit='patient'", '"unit": "patient"', "--unit patient"),
        (option("on", ["a", "b"]), "on=['a', 'b']", '"on": ["a", "b"]', "--on a,b"),
        (option("known", metavar="FILE"), "known=...", '"known"', "--known FILE"),
        (option("unit", 'a"]\\'), "unit='a\"]\\\\'", '"unit": "a\\"]\\\\"', '--unit a"]\\'),
    ],
)
def test_each_door_spells_a_parameter(named: str, in_python: str, as_field: str, flag: str) -> None:
    error = ParameterError("missing", f"Give {named}, and go on.")
    assert str(error) == error.message == f"Give {in_python}, and go on."
    assert in_fields(error) == f"Give {as_field}, and go on."
    assert in_flags(error) == f"Give {flag}, and go on."


def test_a_sentence_of_others_is_never_taken_for_a_parameter() -> None:
    words = 'The file \'a\x02[1]\x03\' and \x02 are \x02["x", {}, ""]\x03 none.'
    error = ParameterError("unreadable", words)
    assert str(error) == in_flags(error) == in_fields(error) == words
    assert options_in(words) == []


def test_fields_travel_between_processes_and_the_detail_does_not() -> None:
    error = ParameterError(
        "parameter_out_of_range",
        "k must be from 2 to 9, not 1.",
        parameter="k",
        given=1,
        allowed="2 to 9",
        hint=f"Give {option('k', 2)}.",
        detail="row 7",
    )
    copy: Any = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "k must be from 2 to 9, not 1. Give k=2."
    assert (copy.code, copy.detail) == (error.code, None)
    assert copy.fields(as_flag) == {
        "parameter": "k",
        "given": 1,
        "allowed": "2 to 9",
        "hint": "Give --k 2.",
    }


def test_a_client_raises_the_error_of_the_server() -> None:
    error = ParameterError(
        "missing",
        f"There are no rows for {option('k', 3)} and {option('on', ['a', 'b'])}.",
        parameter="k",
        given=3,
        hint=f"Give {option('known', metavar='FILE')}.",
    )
    problem = json.loads(json.dumps(problem_of(error)))
    assert problem["parameter"] == "k"
    assert problem["detail"].startswith('There are no rows for "k": 3 and "on": ["a", "b"].')
    rebuilt = refused({"message": problem["detail"], **problem})
    assert str(rebuilt) == str(error)
    assert type(rebuilt) is ParameterError
    assert (rebuilt.parameter, rebuilt.given) == ("k", 3)


@pytest.mark.parametrize("value", [r'"\q"', "+1", "1e5.5"])
def test_a_text_that_only_looks_like_an_option_is_shown_as_it_is(value: str) -> None:
    typed = f'\x02["a", {value}, ""]\x03'
    error = ParameterError("choice_unknown", f"No word {typed}.")
    assert str(error) == f"No word {typed}."
    assert options_in(error.sentence) == []


def test_the_hint_is_spelled_for_programs() -> None:
    error = ParameterError(
        "output_exists", "It is there.", hint=f"Pass {option('overwrite', True)}."
    )
    assert error.hint == "Pass overwrite=True."
    assert "\x02" not in str(error.fields(lambda named: named.name))


@pytest.mark.parametrize("options", [[1], [["a", 1]], 5, [["a", 1, {}]]])
def test_what_a_foreign_server_sends_raises_nothing_raw(options: Any) -> None:
    sent = {"kind": "ParameterError", "code": "output_exists", "message": "m"}
    error = refused({**sent, "options": options, "hint": 5, "given": {}})
    assert error.code == "output_exists"
    assert error.hint is None


def test_a_form_that_the_name_does_not_show_is_shown() -> None:
    error = ParameterError("column_unknown", f"Give {option('column', metavar='person=COLUMN')}.")
    assert in_fields(error) == 'Give "column" (person=column).'
