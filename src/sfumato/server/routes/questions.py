"""Questions: what they would cost, and their answers."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from sfumato.operations.releases import ANSWER
from sfumato.server.request_schemas import DATASET, PLAN, family_form, family_values
from sfumato.server.responses import answered
from sfumato.server.routing import JSON, Call, Reply, Route
from sfumato.vault.families import FAMILIES
from sfumato.vault.family import PURPOSE
from sfumato.vault.session import check_plan, plan_digest

if TYPE_CHECKING:
    from sfumato.methods.method import Plan
    from sfumato.vault.family import Family
    from sfumato.vault.private import Questions

_QUERY = FAMILIES["query"]
_EXAMPLE = {"sql": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "epsilon": "0.1"}
_OF_PEOPLE = {"dataset": "people", "epsilon": "0.1"}
_WATCHED = {"columns": ["age"], "workload": [[[0, 17]], [[65, 120]]], "threshold": 100}
RUN_EXAMPLE = {
    "program": (
        "def adults(rows):\n"
        "    return len([age for age in rows['age'] if age != None and age >= 18])"
    ),
    "language": "starlark",
    "function": "adults",
    "output": [{"low": 0, "high": 1000}],
    "blocks": 10,
    "epsilon": "0.1",
}
LEARN_EXAMPLE = {"kind": "naive-bayes", "features": ["age"], "target": "sex"}
_PLAN = "plan", "explain"
_COST = {
    "type": "object",
    "properties": {"charged": {"type": "boolean"}},
    "additionalProperties": True,
}


_AFTER = {
    "plan": {"type": "string"},
    "remaining_after": {"type": "object"},
    "balance_after": {"type": "string"},
}


def asked_of(call: Call, family: Family) -> Questions:
    """What the caller may ask for the purpose of the request: of one data set, or of all."""
    principal, purpose = call.caller.principal, call.values.get(PURPOSE.name)
    if family.of_dataset:
        name = call.values[DATASET.name]
        return call.vault.private(name, principal=principal, purpose=purpose)
    return call.vault.questions(principal=principal, purpose=purpose)


def planned(call: Call, family: Family) -> tuple[Questions, Plan]:
    """What the caller asks of a family, planned, with whom to have it answered by."""
    asked = asked_of(call, family)
    prepared = asked.prepare(family, **family_values(family, call.values))
    check_plan(prepared, call.values.get(PLAN.name))
    return asked, prepared


def explained(family: Family, call: Call) -> Reply:
    """What it would cost, how far off it would be, and what would be left."""
    asked, prepared = planned(call, family)
    after, balance = asked.left_after(prepared)
    told = {**prepared.explain().to_json(), "plan": plan_digest(prepared)}
    return Reply({**told, "remaining_after": after, "balance_after": balance})


def query(call: Call) -> Reply:
    """The answer to a question."""
    asked, prepared = planned(call, _QUERY)
    # One room for the answer and for its text, which takes more memory than the answer.
    with call.vault.gatekeeper.room(prepared, call.vault.asker(call.caller.principal, None, ())):
        return answered(call, asked.answer(_QUERY, prepared, request_id=call.request_id))


ROUTES = (
    Route(
        method="POST",
        path="/explain",
        told="Say what a question would cost and how far off its answer would be; spends nothing.",
        handler=partial(explained, _QUERY),
        scope="plan",
        shape="explain",
        takes=family_form(_QUERY),
        refusals=(402, 403),
        example=_EXAMPLE,
        gives={
            "type": "object",
            "properties": {
                "cost": {"type": "object"},
                "expected": {"type": "array", "items": {"type": "object"}},
                "notes": {"type": "array", "items": {"type": "string"}},
                "improve": {"type": "array", "items": {"type": "string"}},
                **_AFTER,
            },
            "required": ["cost", "expected", *_AFTER],
        },
    ),
    Route(
        method="POST",
        path="/query",
        told="Answer a question with noise and error bars, charged to your budget.",
        handler=query,
        scope="query",
        shape="query",
        takes=family_form(_QUERY),
        keyed=True,
        refusals=(402, 403, 409),
        media=(JSON, ANSWER),
        example=_EXAMPLE,
        gives={
            "type": "object",
            "properties": {
                "columns": {"type": "array", "items": {"type": "string"}},
                "rows": {"type": "array", "items": {"type": "array"}},
                "error": {"type": ["object", "null"]},
                "cost": _COST,
                "remaining": {"type": "object"},
                "receipt": {"type": "string"},
                "notes": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["columns", "rows", "error", "cost", "remaining", "receipt"],
        },
        answer_example={
            "columns": ["sex", "n"],
            "rows": [["f", 251], ["m", 243]],
            "error": {"n": {"sd": 14.1, "bound95": 30.0}},
            "cost": {"epsilon": 0.1, "charged": True},
            "remaining": {"epsilon": 0.9, "delta": 0.0},
            "receipt": "10:a17c7809ed158ba374f5f73e40ffddb3dc7416ce13414966e692a4a20901b9c2",
            "notes": ["All 2 declared groups of 'sex' are answered, empty ones too."],
        },
    ),
    *(
        Route(
            method="POST",
            path=f"/explain/{family.command}",
            told=f"Plan without charge. {family.help}",
            handler=partial(explained, family),
            scope=scope,
            shape=shape,
            takes=family_form(family),
            refusals=(402, 403, 404),
            example=example,
            gives={
                "type": "object",
                "properties": _AFTER,
                "required": list(_AFTER),
            },
        )
        for family, example, scope, shape in (
            (FAMILIES["publish"], {**_OF_PEOPLE, "kind": "histogram", "columns": ["sex"]}, *_PLAN),
            (FAMILIES["above"], {**_OF_PEOPLE, **_WATCHED}, *_PLAN),
            (FAMILIES["synthesize"], {**_OF_PEOPLE, "method": "mst"}, *_PLAN),
            (FAMILIES["learn"], {**_OF_PEOPLE, **LEARN_EXAMPLE}, *_PLAN),
            # A dry run runs the program, though on rows about nobody.
            (FAMILIES["run"], {**_OF_PEOPLE, **RUN_EXAMPLE}, "submit-code", "code"),
        )
    ),
)
