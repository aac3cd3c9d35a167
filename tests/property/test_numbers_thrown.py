"""Whatever number a caller gives, by any option of any family: a plan, or a refusal in words."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato import arguments
from sfumato.errors import CallerError
from sfumato.methods.publish.catalogue import KINDS
from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    from sfumato.vault.private import Private

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 15)),
        sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(0, 7)),
        sf.Column("city", sf.Kind.TEXT, domain=sf.Values(("a", "b"))),
    ),
)
ROWS = [{"age": n % 16, "x": n % 8, "city": "ab"[n % 2]} for n in range(40)]
THROWN: tuple[object, ...] = (
    *(0, -1, 1e-320, 5e-324, 1e-300, 1e-17, 1e15, 1e300, 10**400, -(10**400), 1 << 63, 10**5000),
    *(
        float("nan"),
        float("inf"),
        True,
        "1" + "0" * 390,
        "1e-300",
        "1e999",
        "nan",
        "1/3",
        1 - 1e-15,
    ),
)
COLUMNS = {
    **dict.fromkeys(("quadtree", "kdtree", "hybrid", "privtree", "adaptive-grid"), ("age", "x")),
    **dict.fromkeys(("marginals", "mwem", "sparse"), ("age", "city")),
}
NEEDED: dict[str, dict[str, Any]] = {
    "above": {"threshold": 3, "workload": [[[0, 3]], [[4, 9]]]},
    "quantiles": {"ranks": "0.5"},
}
SQL = "SELECT COUNT(*) AS n, SUM(age) AS s FROM people"


@cache
def private() -> Private:
    return sf.protect(ROWS, SCHEMA, epsilon=9, delta=1e-6)


def options_of(kind: str) -> list[str]:
    return [option.name for option in fields(KINDS[kind].options)]


def told_or_refused(family: str, *positional: object, **asked: Any) -> None:
    """Plan and explain; whatever else than a refusal of the caller comes up, goes on."""
    try:
        named = dict(zip(["asked" if family == "query" else "kind"], positional, strict=False))
        prepared = private().prepare(FAMILIES[family], **named, **asked)
    except CallerError as error:
        refusal = error.message
    else:
        refusal = ""
        prepared.explain().to_json()
    assert "\n" not in refusal
    assert len(refusal) < 600


@pytest.mark.parametrize("cost", [{"rho": "0.1"}, {"epsilon": 1, "delta": 1e-6}])
@pytest.mark.parametrize("kind", [one for one in KINDS if one != "auto"])
def test_every_option_of_every_publication(kind: str, cost: dict[str, object]) -> None:
    needed: dict[str, Any] = NEEDED.get(kind, {})
    columns = list(COLUMNS.get(kind, ("age",)))
    for option in options_of(kind):
        for thrown in THROWN:
            for value in (thrown, [thrown], [1, thrown], arguments.shown(thrown)):
                asked = {"columns": columns, **needed, option: value, **cost}
                told_or_refused("publish", kind, **asked)


@pytest.mark.parametrize(
    ("family", "option"),
    [
        ("synthesize", "rows"),
        *product(("synthesize", "publish", "query", "above"), ("epsilon", "rho", "delta")),
    ],
)
def test_what_any_family_may_cost_and_how_many_rows(family: str, option: str) -> None:
    positional = {"publish": ("histogram",), "query": (SQL,)}.get(family, ())
    asked: dict[str, Any] = {} if family in ("synthesize", "query") else {"columns": ["age"]}
    asked |= NEEDED["above"] if family == "above" else {}
    if option in ("rows", "delta"):
        asked["epsilon"] = 1
    for thrown in THROWN:
        told_or_refused(family, *positional, **{**asked, option: thrown})


@pytest.mark.parametrize("cost", [{"epsilon": 1}, {"rho": "0.1"}, {"epsilon": 1e-9}])
def test_the_weights_of_a_question(cost: dict[str, object]) -> None:
    for thrown in THROWN:
        for other in (1, 1e6, 1e-6):
            told_or_refused("query", SQL, weights={"n": thrown, "s": other}, **cost)
            told_or_refused("query", SQL, weights={"s": thrown}, **cost)


def test_no_figure_is_left_less_than_a_budget_counts() -> None:
    """Noise for epsilon 1e-17 would fill every number: charged, and nothing told."""
    for weights in ({"n": 1e15}, {"n": 1e6, "s": 1e-6}, {"n": 1e-300}):
        with pytest.raises(CallerError):
            private().explain(SQL, epsilon=1, weights=weights)
    private().explain(SQL, epsilon=1, weights={"n": 1e6})
    private().explain(SQL, epsilon=1, weights={"n": 1000, "s": "1/1000"})
