"""Long work: each family is submitted as a job."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from sfumato.operations.jobs import JobRecord
from sfumato.server.request_schemas import (
    DATASET,
    FLAG,
    NAME,
    NAMES,
    NUMBER,
    PLAN,
    TEXT,
    WHOLE,
    Input,
    family_form,
    family_values,
)
from sfumato.server.routes.questions import LEARN_EXAMPLE, RUN_EXAMPLE
from sfumato.server.routing import Call, Reply, Route
from sfumato.vault.families import FAMILIES
from sfumato.vault.family import PURPOSE
from sfumato.vault.jobs.anonymize_job import ANONYMIZE
from sfumato.vault.tokens import scope_of

if TYPE_CHECKING:
    from sfumato.vault.family import Family

_PEOPLE = {"dataset": "people"}
_EXAMPLE = {
    "job": "5dc893f2e527a768",
    "family": "publish",
    "dataset": "people",
    "principal": "ann",
    "purpose": None,
    "asked": {"kind": "histogram", "columns": ["sex"], "epsilon": "0.1"},
    "request_id": "sexes-2026",
    "state": "running",
    "progress": {"stage": "answering", "number": 2, "of": 3},
    "submitted": "2026-03-01T12:00:00+00:00",
    "started": "2026-03-01T12:00:01+00:00",
    "ended": None,
    "error": None,
    "release": None,
}
_WEIGHTS = {"type": "object", "additionalProperties": NUMBER}
_WISHES = (
    DATASET,
    Input("k", "How many each released row must be among.", WHOLE),
    Input("l", "How diverse sensitive values must be in each class.", WHOLE),
    Input("diversity", "In which sense: distinct, entropy, recursive, folk.", NAME),
    Input("c", "Of recursive diversity.", NUMBER),
    Input("t", "How near each class must be to the whole.", NUMBER),
    Input("distance", "In which sense: equal, ordered, hierarchy.", NAME),
    Input("delta_disclosure", "Of delta-disclosure privacy.", NUMBER),
    Input("beta", "Of beta-likeness.", NUMBER),
    Input("sensitive", "The columns that are looked at.", NAMES),
    Input("algorithm", "How to search.", NAME),
    Input("cost", "What is to be least.", NAME),
    Input("suppress", "The share of rows that may be left out.", NUMBER),
    Input("suppressed", "What becomes of these: drop, star.", NAME),
    Input("refine", "Whether suppressed rows are searched again.", FLAG),
    Input("weights", "How much each column counts.", _WEIGHTS),
    Input("limit_seconds", "How long to search.", NUMBER),
    Input("by", "Who makes it.", TEXT),
    Input("attacks", "Whether attacks are tried before it is kept.", FLAG),
    Input("require", "What they may get at most, such as link<0.05.", NAMES),
    Input("publish_findings", "Whether what attacks found is told with it.", FLAG),
    Input(PURPOSE.name, PURPOSE.help, NAME),
)
_APART = (DATASET.name, PURPOSE.name)


def submitted(family: Family, call: Call) -> Reply:
    """A job of a family, which is done as soon as a worker is free."""
    asked = family_values(family, call.values)
    return _submitted(call, family.name, asked, plan=call.values.get(PLAN.name))


def anonymized(call: Call) -> Reply:
    """A job that anonymizes, for the owner."""
    asked = {name: one for name, one in call.values.items() if name not in _APART}
    return _submitted(call, ANONYMIZE, asked, plan=None)


def _submitted(call: Call, family: str, asked: dict[str, Any], plan: str | None) -> Reply:
    job = call.vault.jobs.submit(
        family,
        call.values[DATASET.name],
        principal=call.caller.principal,
        purpose=call.values.get(PURPOSE.name),
        request_id=call.request_id,
        plan=plan,
        **asked,
    )
    return Reply(job.to_json(), headers={"Location": f"/v1/jobs/{job.id}"})


_ONE: dict[str, Any] = {"gives": JobRecord.json_schema(), "answer_example": _EXAMPLE}
ROUTES = (
    *(
        Route(
            method="POST",
            path=f"/{family.command}",
            told=f"{family.help} It is a job: look at it under jobs, have it under releases.",
            handler=partial(submitted, family),
            scope=scope_of(family.shape),
            shape=family.shape,
            takes=family_form(family),
            keyed=True,
            status=202,
            refusals=(402, 403, 404, 409),
            example=example,
            **_ONE,
        )
        for family, example in (
            (
                FAMILIES["publish"],
                {**_PEOPLE, "kind": "histogram", "columns": ["sex"], "epsilon": "0.1"},
            ),
            (
                FAMILIES["above"],
                {
                    **_PEOPLE,
                    "columns": ["age"],
                    "workload": [[[0, 17]], [[65, 120]]],
                    "threshold": 100,
                },
            ),
            (FAMILIES["synthesize"], {**_PEOPLE, "method": "mst", "epsilon": "0.5"}),
            (FAMILIES["learn"], {**_PEOPLE, **LEARN_EXAMPLE, "epsilon": "0.5"}),
            (FAMILIES["run"], {**_PEOPLE, **RUN_EXAMPLE}),
        )
    ),
    Route(
        method="POST",
        path="/anonymize",
        told="Release a data set so that nobody stands out in it. It is a job, for the owner.",
        handler=anonymized,
        scope="admin",
        owner=True,
        takes=_WISHES,
        keyed=True,
        status=202,
        refusals=(403, 404, 409),
        example={**_PEOPLE, "k": 5},
        **_ONE,
    ),
)
