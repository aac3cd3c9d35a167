"""Flags become criteria; flags that belong to nothing are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.anonymize.criteria.request import CriteriaRequest
from sfumato.data.schema.column import Role
from sfumato.data.schema.schema import Schema
from sfumato.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    from sfumato.anonymize.criteria import Criterion


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (CriteriaRequest(), []),
        (CriteriaRequest(k=5), [sf.KAnonymity(5)]),
        (CriteriaRequest(k=5, population=True), [sf.KMap(5)]),
        (
            CriteriaRequest(k=5, presence="0,1/2", population=True),
            [sf.KAnonymity(5), sf.DeltaPresence("0", "1/2")],
        ),
        (CriteriaRequest(l=2), [sf.DistinctDiversity(2, "disease")]),
        (CriteriaRequest(l=2, diversity="entropy"), [sf.EntropyDiversity(2, "disease")]),
        (CriteriaRequest(l=2, diversity="folk"), [sf.FolkDiversity(2, "disease")]),
        (
            CriteriaRequest(l=2, diversity="recursive", c="3"),
            [sf.RecursiveDiversity(2, "disease", c="3")],
        ),
        (CriteriaRequest(t="0.2"), [sf.TCloseness("0.2", "disease")]),
        (
            CriteriaRequest(t="0.2", distance="ordered"),
            [sf.TCloseness("0.2", "disease", distance="ordered")],
        ),
        (
            CriteriaRequest(delta_disclosure="1", beta="2"),
            [sf.DeltaDisclosure("1", "disease"), sf.BetaLikeness("2", "disease")],
        ),
    ],
)
def test_criteria_of_a_named_column(
    schema: Schema, asked: CriteriaRequest, expected: list[Criterion]
) -> None:
    assert asked.criteria(schema, ["disease"]) == expected


def test_by_default_every_sensitive_column_is_looked_at(schema: Schema) -> None:
    found = CriteriaRequest(l=2).criteria(schema)
    assert found == [sf.DistinctDiversity(2, "disease"), sf.DistinctDiversity(2, "salary")]


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"diversity": "entropy"}, "options_conflict"),
        ({"distance": "equal"}, "options_conflict"),
        ({"presence": "0,1"}, "options_conflict"),
        ({"presence": "0.5", "population": True}, "parameter_type_wrong"),
        ({"l": 2, "diversity": "recursive"}, "options_conflict"),
        ({"l": 2, "diversity": "folk", "c": "2"}, "options_conflict"),
        ({"k": 0}, "parameter_out_of_range"),
        ({"t": "much"}, "parameter_type_wrong"),
    ],
)
def test_what_makes_no_sense_is_refused(schema: Schema, given: dict[str, Any], code: str) -> None:
    with pytest.raises(ParameterError) as refusal:
        CriteriaRequest(**given).criteria(schema)
    assert refusal.value.code == code


def test_columns_must_be_there(schema: Schema) -> None:
    with pytest.raises(SchemaError) as unknown:
        CriteriaRequest(l=2).criteria(schema, ["diseases"])
    assert unknown.value.code == "column_unknown"
    plain = Schema("people", schema.by_role(Role.QUASI))
    with pytest.raises(ParameterError) as none:
        CriteriaRequest(l=2).criteria(plain)
    assert none.value.code == "role_invalid"
