"""People of a vault: added, given budgets, let go; and what each may see and ask."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import code_of
from tests.unit.methods.programs.chambers import OpenChamber

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.methods.programs import request
from sfumato.vault.creation import create
from sfumato.vault.families import FAMILIES
from sfumato.vault.registration import Registration
from sfumato.vault.vault import ledger_access

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CLINIC = Path("clinic")
COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
BY = {"operator": "ann"}
HISTOGRAM: dict[str, Any] = {"columns": ["city"], "epsilon": "0.1"}


def make_clinic() -> None:
    create(CLINIC)
    Path("others.csv").write_text(Path("visits.csv").read_text() + "9999,north,1,n1\n")
    for name, epsilon in (("visits", "2"), ("others", "4")):
        source, schema = f"{name}.csv", Path("visits.toml")
        Registration(name=name, source=source, schema=schema, epsilon=epsilon).add_to(CLINIC)
    path = CLINIC / "vault.toml"
    path.write_text(path.read_text() + '[principals.old.budgets.visits]\nepsilon = "1"\n')


@pytest.fixture
def files(as_made: Callable[[Callable[[], None]], Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    place = as_made(make_clinic)
    monkeypatch.chdir(place)
    return place


@pytest.fixture
def vault(files: Path) -> Iterator[sf.Vault]:
    with sf.open(files / CLINIC) as opened:
        yield opened


def said(action: Any, *positional: Any, **named: Any) -> tuple[str, str]:
    """The code and words of a refusal."""
    with pytest.raises(SfumatoError) as refusal:
        action(*positional, **named)
    return refusal.value.code, refusal.value.message


def test_a_principal_asks_within_a_budget_that_stands_in_the_ledger_alone(vault: sf.Vault) -> None:
    made = vault.people.add("alice", "external", population="visits", epsilon="1/2", **BY)
    assert made == vault.people.get("alice")
    assert made.populations == ("visits",)
    answer = vault.query(COUNT, epsilon="0.2", principal="alice")
    assert answer.remaining == {"epsilon": 0.3, "delta": 0.0}
    assert code_of(vault.query, COUNT, epsilon="0.4", principal="alice") == "budget_exhausted"
    assert "alice" not in (CLINIC / "vault.toml").read_text()
    with sf.open(CLINIC) as again:
        assert again.people.get("alice") == made
    assert [one["account"] for one in vault.people.balances("alice")] == ["visits"]
    assert vault.people.balances("alice")[0]["remaining"] == {"epsilon": 0.3, "delta": 0.0}
    assert len(vault.people.balances("owner")) == 4
    assert vault.verify()["accounts"] == 4


def test_another_server_sees_every_change_at_once(vault: sf.Vault) -> None:
    with sf.open(CLINIC) as other:
        vault.people.add("alice", "external", population="visits", epsilon=1, **BY)
        other.query(COUNT, epsilon="0.1", principal="alice")
        vault.people.expire("alice", **BY)
        assert code_of(other.query, COUNT, epsilon="0.1", principal="alice") == "principal_expired"
        other.people.expire("alice", at="30d", **BY)
        vault.query(COUNT, epsilon="0.1", principal="alice")


def test_who_stands_in_the_configuration_stays_as_permanent_staff(vault: sf.Vault) -> None:
    old = vault.people.get("old")
    assert (str(old.kind), old.populations) == ("permanent-staff", ("visits",))
    assert vault.query(COUNT, epsilon="0.1", principal="old").charged
    for change in (vault.people.grant, vault.people.lower):
        assert code_of(change, "old", epsilon=1, population="visits", **BY) == ("account_elsewhere")
    assert code_of(vault.people.expire, "old", **BY) == "account_elsewhere"
    assert code_of(vault.people.expire, "owner", **BY) == "account_elsewhere"
    assert [one.name for one in vault.people.list()] == ["old"]


def test_no_other_data_set_exists_for_a_principal(vault: sf.Vault) -> None:
    """The same words, whether it is another's or was never there; also in what was meant."""
    vault.people.add("alice", "permanent-staff", population="visits", epsilon=1, **BY)
    assert list(vault.questions(principal="alice").catalogue) == ["visits"]
    assert list(vault.questions().catalogue) == ["visits", "others"]
    asked: dict[str, Any] = {"epsilon": "0.1", "principal": "alice"}
    vault.query(COUNT.replace("visits", "others"), epsilon="0.1")  # which others may ask
    for ask in (vault.query, vault.explain):
        theirs = said(ask, COUNT.replace("visits", "others"), **asked)
        never = said(ask, COUNT.replace("visits", "athers"), **asked)
        assert theirs[0] == "table_unknown"
        assert theirs[1].replace("others", "athers") == never[1]
        joined = "SELECT COUNT(*) FROM visits v JOIN {} o ON v.patient = o.patient"
        theirs, never = (said(ask, joined.format(one), **asked) for one in ("others", "athers"))
        assert theirs[1].replace("others", "athers") == never[1]
    for door in (vault.publish, vault.plan):
        theirs = said(door, "histogram", "others", **HISTOGRAM, principal="alice")
        never = said(door, "histogram", "athers", **HISTOGRAM, principal="alice")
        assert theirs[1].replace("others", "athers") == never[1]
    assert "others" not in repr(vault.questions(principal="alice"))
    # Nor for who may only download, or may nothing any more.
    vault.people.add("shop", "public", population="visits", epsilon=1, **BY)
    assert list(vault.questions(principal="shop").catalogue) == []
    assert code_of(vault.explain, COUNT, epsilon=1, principal="shop") == "permission_missing"


def number(rows: Any) -> int:
    return len(rows)


@pytest.mark.parametrize(
    ("kind", "refused"),
    [
        ("owner", set()),
        ("permanent-staff", set()),
        ("temporary-staff", {"synthesize", "run"}),
        ("external", {"publish", "above", "synthesize", "learn"}),
        ("purchaser", {"publish", "above", "synthesize", "learn", "run"}),
        ("public", {"query", "publish", "above", "synthesize", "learn", "run"}),
    ],
)
def test_each_kind_gets_the_shapes_of_the_table(
    vault: sf.Vault, kind: str, refused: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "chamber", lambda _choice: OpenChamber())
    monkeypatch.setattr(request, "_wait_until", lambda _moment: None)
    budget = {} if kind == "owner" else {"population": "visits", "epsilon": "1"}
    vault.people.add("alice", kind, **budget, **BY)
    vault.programs.approve(number, **BY)
    asked: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
        "query": ((COUNT,), {}),
        "publish": (("histogram",), {"columns": ["city"]}),
        "above": ((), {"columns": ["cost"], "workload": [[[0, 50]]], "threshold": 9}),
        "synthesize": ((), {"columns": ["city"], "method": "independent"}),
        "learn": (("naive-bayes",), {"features": ["cost"], "target": "city"}),
        "run": ((number,), {"output": [(0, 9)], "blocks": 2, "seconds": 0.1}),
    }
    assert asked.keys() == FAMILIES.keys()
    before = vault.accounts()
    for name in refused:
        asking = vault._asking("alice", None)
        private = sf.Private(vault._session, asking, "visits")
        positional, named = asked[name]
        code, message = said(getattr(private, name), *positional, epsilon="0.1", **named)
        assert code == "permission_missing", name
        assert "\n" not in message
    assert vault.accounts() == before
    for name in asked.keys() - refused:
        positional, named = asked[name]
        private = vault.private("visits", principal="alice")
        assert getattr(private, name)(*positional, epsilon="0.1", **named).charged, name


def test_a_plan_is_run_by_who_may(vault: sf.Vault) -> None:
    """What the owner prepared gives nobody else a right, a population or a price."""
    vault.people.add("ext", "external", population="visits", epsilon=1, **BY)
    vault.people.add("far", "external", population="others", epsilon=1, **BY)
    plan = vault.private("visits").plan("histogram", **HISTOGRAM)
    family = FAMILIES["publish"]
    for name, code in (("ext", "permission_missing"), ("far", "plan_foreign")):
        asked = vault.questions(principal=name)
        assert code_of(asked.answer, family, plan) == code
        assert code_of(asked.answer, FAMILIES["query"], plan) == code
    vault.people.add("dear", "permanent-staff", population="visits", epsilon=1,
                     min_epsilon="0.2", **BY)  # fmt: skip
    assert code_of(vault.questions(principal="dear").answer, family, plan) == "permission_missing"


def test_a_search_that_is_free_is_short_for_all_but_the_owner(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.vault.publications.MOST_SEARCHED", 1)
    vault.people.add("ann", "permanent-staff", population="visits", epsilon=1, **BY)
    theirs, ours = vault.private("visits", principal="ann"), vault.private("visits")
    for kind in ("auto", "tree"):
        code, words = said(theirs.plan, kind, **HISTOGRAM)
        assert code == "problem_too_large"
        assert "'wavelet'" in words
        assert code_of(ours.plan, kind, **HISTOGRAM) != "problem_too_large"
    assert theirs.plan("histogram", **HISTOGRAM).kind == "histogram"


def test_the_largest_epsilon_that_is_told_is_ones_own(vault: sf.Vault) -> None:
    vault.people.add("low", "permanent-staff", population="visits", epsilon=1,
                     max_epsilon="0.2", **BY)  # fmt: skip
    vault.people.add("free", "permanent-staff", population="visits", epsilon=1, **BY)
    assert vault.private("visits", principal="low").largest_epsilon == Fraction("0.2")
    whole = vault.private("visits").largest_epsilon
    assert whole == vault.private("visits", principal="free").largest_epsilon > 1


def test_the_smallest_and_the_largest_epsilon_hold_for_every_price(vault: sf.Vault) -> None:
    low_high = {"min_epsilon": "0.25", "max_epsilon": "0.5"}
    vault.people.add("alice", "permanent-staff", population="visits", epsilon=1, **low_high, **BY)
    for cost in ({"epsilon": "0.2"}, {"epsilon": "0.51"}, {"rho": "0.2"}, {"rho": "0.01"}):
        for door in (vault.query, vault.explain):
            assert code_of(door, COUNT, principal="alice", **cost) == "permission_missing"
    private = vault.private("visits", principal="alice")
    for epsilon in ("0.2", "0.6"):
        code = code_of(private.publish, "histogram", columns=["city"], epsilon=epsilon)
        assert code == "permission_missing"
        code = code_of(private.synthesize, columns=["city"], epsilon=epsilon)
        assert code == "permission_missing"
    assert vault.query(COUNT, principal="alice").cost == {"epsilon": 0.25}  # a tenth is too little


def test_expiry_goes_by_the_later_of_clock_and_ledger(vault: sf.Vault) -> None:
    people, ledger = vault.people, vault.ledger
    people.add("alice", "temporary-staff", population="visits", epsilon=1, expires="2d", **BY)
    vault.query(COUNT, epsilon="0.1", principal="alice")
    later = datetime.now(UTC) + timedelta(days=3)
    ledger._clock = lambda: later
    assert code_of(vault.query, COUNT, epsilon="0.1", principal="alice") == "principal_expired"
    vault.query(COUNT, epsilon="0.3")
    ledger._clock = lambda: later - timedelta(days=30)
    assert code_of(vault.query, COUNT, epsilon="0.1", principal="alice") == "principal_expired"
    assert people.get("alice").expires is not None  # for the owner to see


def test_several_owners_draw_on_the_populations_own_budgets(vault: sf.Vault) -> None:
    vault.people.add("eva", "owner", **BY)
    vault.query(COUNT, epsilon=1, principal="eva")
    left = {one["account"]: one["remaining"]["epsilon"] for one in vault.accounts()}
    assert left == {"visits": 1, "others": 4, "visits/old": 1}
    with vault.private("visits", principal="eva").owners_rows() as rows:
        assert rows.name == "visits"
    for more in ({"epsilon": 1}, {"max_epsilon": 1}):
        assert code_of(vault.people.add, "eve", "owner", **more, **BY) == "option_not_applicable"
    assert code_of(vault.people.grant, "eva", epsilon=1, population="visits", **BY) == (
        "option_not_applicable"
    )
    assert code_of(vault.people.change, "eva", kind="external", **BY) == "option_not_applicable"
    vault.people.add("bob", "external", **BY)
    assert code_of(vault.people.change, "bob", kind="owner", **BY) == "option_not_applicable"


def test_rights_can_be_changed(vault: sf.Vault) -> None:
    vault.people.add("alice", "external", population="visits", epsilon=1, max_epsilon="0.5", **BY)
    changed = vault.people.change("alice", kind="permanent-staff", min_epsilon="0.1", **BY)
    assert "synthesize" in changed.shapes
    assert (changed.min_epsilon, changed.max_epsilon) == (Fraction(1, 10), Fraction(1, 2))
    assert vault.people.change("alice", shapes="explain", **BY).shapes == {"explain"}
    assert vault.explain(COUNT, epsilon="0.1", principal="alice").cost
    assert code_of(vault.query, COUNT, epsilon="0.1", principal="alice") == "permission_missing"
    for said_now in ({"min_epsilon": 1}, {"max_epsilon": "0.05"}):
        assert code_of(vault.people.change, "alice", **said_now, **BY) == "parameter_out_of_range"


LOOKALIKES = ["Alice", "a1ice", "aIice", "Owner", "owner", "OWNER", "old", "OLD", "o1d"]
NO_NAMES = [
    "аlice",
    "älice",
    "😀",
    "\ud800",
    "a b",
    "",
    "a/b",
    "a\n",
    "-a",
    "1a",
    "x" * 64,
    "ａlice",
]


def test_R49_names_that_look_like_another(vault: sf.Vault) -> None:
    vault.people.add("alice", "external", **BY)
    for name in LOOKALIKES:
        assert code_of(vault.people.add, name, "external", **BY) == "name_taken", name


def test_R49_names_that_are_none(vault: sf.Vault) -> None:
    for name in NO_NAMES:
        assert code_of(vault.people.add, name, "external", **BY) == "name_invalid", name
        assert code_of(vault.people.grant, name, epsilon=1, population="visits", **BY) == (
            "name_invalid"
        )
        assert code_of(vault.query, COUNT, principal=name) == "principal_unknown"
    assert len(vault.people.list()) == 1


def test_what_cannot_be_added(vault: sf.Vault) -> None:
    add = vault.people.add
    assert code_of(add, "a", "boss", **BY) == "choice_unknown"
    assert code_of(add, "a", "external", shapes="publish", **BY) == "choice_unknown"
    assert code_of(add, "a", "external", epsilon=1, **BY) == "population_unknown"
    assert code_of(add, "a", "external", epsilon=1, population="x", **BY) == "population_unknown"
    assert code_of(add, "a", "external", min_epsilon=2, max_epsilon=1, **BY) == (
        "parameter_out_of_range"
    )
    assert code_of(add, "a", "external", min_epsilon=-1, **BY) == "parameter_out_of_range"
    assert code_of(add, "a", "external", expires="never", **BY) == "time_malformed"
    assert code_of(add, "a", "external", operator="") == "name_invalid"
    assert code_of(add, "a", "external", operator=7) == "parameter_type_wrong"
    for amount, code in (("3", "budget_out_of_range"), ("0", "parameter_out_of_range"),
                         ("-1", "parameter_out_of_range"), ("nan", "parameter_type_wrong"),
                         ("1e-12", "parameter_out_of_range")):  # fmt: skip
        assert code_of(add, "a", "external", epsilon=amount, population="visits", **BY) == code
    assert code_of(
        add, "a", "external", epsilon=1, delta="0.1", population="visits", **BY
    ) == "budget_out_of_range"  # fmt: skip
    assert [one.name for one in vault.people.list()] == ["old"]


def test_a_folder_is_enough_to_administer(vault: sf.Vault) -> None:
    (CLINIC.parent / "visits.csv").unlink()
    with ledger_access(CLINIC) as access:
        access.principal_registry.add("alice", "external", population="visits", epsilon=1, **BY)
    assert vault.people.get("alice").populations == ("visits",)


def test_a_population_keeps_at_least_what_a_principal_has(vault: sf.Vault) -> None:
    vault.people.add("alice", "external", population="visits", epsilon="1.5", **BY)
    limit = vault.limit
    assert code_of(limit, "visits", epsilon="1.4", **BY) == "budget_out_of_range"
    assert code_of(limit, "visits/alice", epsilon="1", **BY) == "account_elsewhere"
    vault.people.lower("alice", population="visits", epsilon="1.4", **BY)
    limit("visits", epsilon="1.4", **BY)
    assert code_of(vault.people.grant, "alice", population="visits", epsilon="1.5", **BY) == (
        "budget_out_of_range"
    )


def test_values_of_a_wrong_type_are_refused_in_words(vault: sf.Vault) -> None:
    vault.people.add("alice", "external", population="visits", epsilon=1, **BY)
    before = vault.verify()
    for wrong in (7, ["alice", 7], object(), b"alice", 1.5, True):
        throw(vault, wrong)
    assert vault.verify() == before


def throw(vault: sf.Vault, wrong: Any) -> None:
    people, tokens = vault.people, vault.tokens
    asked: dict[str, Any] = {"epsilon": 1, "population": "visits", "operator": "ann"}
    doors: list[tuple[Any, tuple[Any, ...], dict[str, Any]]] = [
        *((people.add, ("new", "external"), {**asked, one: wrong})
          for one in ("population", "shapes", "expires", "operator")),
        (people.add, (wrong, "external"), asked),
        (people.add, ("new", wrong), asked),
        *((door, (wrong,), asked) for door in (people.grant, people.lower)),
        (people.grant, ("alice",), {**asked, "population": wrong}),
        (people.move, ("alice", wrong), asked),
        (people.expire, ("alice",), {"at": wrong, **BY}),
        (people.change, ("alice",), {"kind": wrong, **BY}),
        (people.get, (wrong,), {}),
        (tokens.new, (wrong,), BY),
        (tokens.new, ("alice",), {"scopes": wrong, **BY}),
        (tokens.revoke, (wrong,), BY),
        (vault.token_registry.holder, (wrong,), {}),
    ]  # fmt: skip
    for door, positional, named in doors:
        assert code_of(door, *positional, **named) == "parameter_type_wrong", (
            door,
            positional,
            named,
        )
    assert (
        code_of(people.grant, "alice", **{**asked, "epsilon": object()}) == "parameter_type_wrong"
    )
