"""Questions to a vault and to one table: answered, explained, refused."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.errors import SfumatoError
from sfumato.vault.creation import create
from sfumato.vault.families import FAMILIES
from sfumato.vault.registration import Registration, add_public

if TYPE_CHECKING:
    from collections.abc import Iterator

CLINIC = Path("clinic")
COUNT = "SELECT city, COUNT(*) AS n FROM visits GROUP BY city"
ALICE = '[principals.alice.budgets.visits]\nepsilon = "1"\n[principals.bob]\n'


def add(name: str = "visits", source: str = "visits.csv", **options: Any) -> None:
    given = {"schema": Path("visits.toml"), "epsilon": "8", **options}
    Registration(name=name, source=source, **given).add_to(CLINIC)


@pytest.fixture
def vault(files: Path) -> Iterator[sf.Vault]:
    create(CLINIC)
    add()
    path = files / CLINIC / "vault.toml"
    path.write_text(path.read_text() + ALICE)
    with sf.open(CLINIC) as opened:
        yield opened


@pytest.fixture
def private() -> sf.Private:
    columns = (
        sf.Column("city", sf.Kind.TEXT, domain=sf.Values(("a", "b")), nullable=False),
        sf.Column("age", sf.Kind.INTEGER, domain=sf.Bounds(0, 100), nullable=False),
    )
    table = pa.table({"city": ["a", "b", "b", "b"] * 500, "age": [10, 20, 30, 40] * 500})
    people = sf.read(table, sf.Schema("people", columns))
    return sf.protect(people, epsilon=5, delta="1e-6")


def test_an_answer_is_near_the_truth_and_says_how_near(vault: sf.Vault) -> None:
    answer = vault.query(COUNT, epsilon=4)
    assert answer.table.column_names == ["city", "n"]
    counts = dict(zip(*answer.table.to_pydict().values(), strict=True))
    # Noise of scale 2 / 4 = 0.5: beyond 10 with probability 4 exp(-20) < 1e-8.
    assert abs(counts["north"] - 2666) < 10
    assert abs(counts["south"] - 1334) < 10
    assert answer.error is not None
    assert 0 < answer.error["n"]["sd"] < 1
    assert answer.guarantee.kind == "differential privacy"


def test_the_json_of_an_answer_is_as_promised(vault: sf.Vault) -> None:
    found = vault.query(COUNT, epsilon=1).to_json()
    assert list(found) == [*("columns", "rows", "error", "cost", "remaining", "receipt", "notes")]
    assert found["columns"] == ["city", "n"]
    assert [row[0] for row in found["rows"]] == ["north", "south"]
    assert set(found["error"]["n"]) >= {"sd", "bound95"}
    assert found["cost"] == {"epsilon": 1.0, "charged": True}
    assert found["remaining"] == {"epsilon": 7.0, "delta": 0.0}
    again = vault.query(COUNT, epsilon=1).to_json()
    assert again == {**found, "cost": {"epsilon": 1.0, "charged": False}}


def test_without_a_cost_a_question_takes_a_tenth_of_the_budget(vault: sf.Vault) -> None:
    assert vault.query(COUNT).cost == {"epsilon": 0.8}
    assert vault.query(COUNT, principal="alice").cost == {"epsilon": 0.1}


def test_the_cost_may_stand_in_the_question(vault: sf.Vault) -> None:
    sql = COUNT.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 0.5)")
    assert vault.query(sql).cost == {"epsilon": 0.5}
    assert code_of(vault.query, sql, epsilon=1) == "cost_twice"
    assert code_of(vault.query, sql, rho=1) == "cost_twice"


def test_explaining_spends_nothing_and_foretells_the_error(vault: sf.Vault) -> None:
    explained = vault.explain(COUNT, epsilon=1)
    answer = vault.query(COUNT, epsilon=1)
    assert answer.remaining["epsilon"] == 7
    assert answer.error is not None
    assert explained.to_json()["expected"][0]["sd"] == pytest.approx(answer.error["n"]["sd"])


def test_a_question_may_be_built(vault: sf.Vault) -> None:
    asked = sf.table("visits").group_by("city").aggregate(n="COUNT(*)")
    built = vault.query(asked, epsilon=1)
    assert built.table == vault.query(COUNT, epsilon=1).table


def test_principals_pay_from_budgets_of_their_own(vault: sf.Vault) -> None:
    """Bad input 41: too little left, no budget at all (its table does not exist), nobody known."""
    mine = vault.query(COUNT, epsilon="0.75", principal="alice")
    assert mine.remaining == {"epsilon": 0.25, "delta": 0.0}
    assert code_of(vault.query, COUNT, epsilon="0.5", principal="alice") == "budget_exhausted"
    assert code_of(vault.query, COUNT, epsilon="0.5", principal="bob") == "table_unknown"
    assert code_of(vault.query, COUNT, epsilon="0.5", principal="eve") == "principal_unknown"
    assert vault.query(COUNT, epsilon=1).remaining == {"epsilon": 6.25, "delta": 0.0}


def test_a_closed_vault_says_so(vault: sf.Vault) -> None:
    private = vault.private("visits")
    vault.close()
    vault.close()
    assert code_of(vault.query, COUNT, epsilon="0.5") == "vault_closed"
    assert code_of(vault.explain, COUNT) == "vault_closed"
    assert code_of(private.publish, "histogram", columns=["city"], epsilon=1) == "vault_closed"


def refused(call: Any, *words: object, **given: object) -> str:
    with pytest.raises(sf.SfumatoError) as caught:
        call(*words, **given)
    return caught.value.message


def test_what_is_left_is_told_in_one_line(vault: sf.Vault) -> None:
    vault.query(COUNT, epsilon="0.1")
    answer = vault.query(COUNT, epsilon="0.2")
    assert (answer.cost_in_words, answer.balance) == ("epsilon 0.2", "epsilon 7.7 of 8 left")
    assert answer.remaining["epsilon"] == 7.7
    own = vault.query(COUNT, epsilon="0.25", principal="alice")
    assert own.balance == "epsilon 0.75 of 1 left"


def test_a_refusal_says_what_was_asked_and_what_is_left(vault: sf.Vault) -> None:
    """Of a shared budget only what was asked: what others left is not told."""
    vault.query(COUNT, epsilon="0.5", principal="alice")
    said = refused(vault.query, COUNT, epsilon="0.75", principal="alice")
    assert "costs epsilon 0.75; the budget has epsilon 0.5 of 1 left" in said
    said = refused(vault.query, COUNT, epsilon="7.75")
    assert "costs epsilon 7.75; the budget has epsilon 7.5 of 8 left" in said
    vault.query(COUNT, epsilon="7.25")
    said = refused(vault.query, COUNT, epsilon="0.375", principal="alice")
    assert "costs epsilon 0.375" in said
    assert "0.25" not in said


@pytest.mark.parametrize("principal", ["owner", "alice"])
def test_a_budget_without_delta_says_so(vault: sf.Vault, principal: str) -> None:
    notes = "SELECT note, COUNT(*) AS n FROM visits GROUP BY note"
    assert "Give delta=1e-7" in refused(vault.query, notes, epsilon="0.5", principal=principal)
    for cost in ({"epsilon": "0.5", "delta": "1e-7"}, {"rho": "0.01"}):
        asked = notes if "delta" in cost else COUNT
        said = refused(vault.query, asked, **cost, principal=principal)
        assert "needs a delta, and this budget has none" in said
        assert "delta=1e-6" in said


def test_explaining_asks_who_asks_whatever_it_costs(vault: sf.Vault) -> None:
    for cost in ({}, {"epsilon": "0.5"}):
        family, asked = FAMILIES["query"], vault.questions(principal="eve")
        assert code_of(asked.prepare, family, asked=COUNT, **cost) == "principal_unknown"


def test_a_delta_that_is_not_used_is_no_cost(private: sf.Private) -> None:
    """One count is better with Laplace noise, which uses no delta; many are with Gaussian."""
    # From the first charge on, sums have a share of the delta; an untouched budget shows all of it.
    private.query("SELECT COUNT(*) AS n FROM people WHERE age > 50", epsilon="0.25")
    before = private.remaining["delta"]
    answer = private.query("SELECT COUNT(*) AS n FROM people", epsilon="0.25", delta="1e-7")
    assert answer.cost == {"epsilon": 0.25}
    assert "delta" not in answer.guarantee.statement
    assert private.remaining["delta"] == before
    figures = ", ".join(f"SUM(CASE WHEN age > {at} THEN 1 ELSE 0 END)" for at in range(20))
    many = private.query(f"SELECT {figures} FROM people", epsilon="0.25", delta="1e-7")
    assert many.cost == {"epsilon": 0.25, "delta": 1e-7}


@pytest.mark.parametrize("stranger", ["eve", "alic", "Bob", "owners"])
def test_a_stranger_is_not_told_who_may_ask(vault: sf.Vault, stranger: str) -> None:
    with pytest.raises(sf.SfumatoError) as refused:
        vault.query(COUNT, principal=stranger)
    said = refused.value.message.replace(repr(stranger), "").lower()
    assert not any(name in said for name in ("alice", "bob", "'owner'"))


def test_budgets_and_answers_outlive_the_process(vault: sf.Vault) -> None:
    first = vault.query(COUNT, epsilon=1)
    vault.close()
    with sf.open(CLINIC) as again:
        assert again.query(COUNT, epsilon=1).to_json()["rows"] == first.to_json()["rows"]
        assert code_of(again.query, "SELECT COUNT(*) FROM visits", epsilon=8) == "budget_exhausted"


def test_a_new_snapshot_retires_stored_answers(vault: sf.Vault) -> None:
    vault.query(COUNT, epsilon=1)
    vault.close()
    path = CLINIC / "vault.toml"
    path.write_text(path.read_text().replace("snapshot = 1", "snapshot = 2"))
    with sf.open(CLINIC) as again:
        assert again.query(COUNT, epsilon=1).charged


def test_a_public_table_is_joined_where_the_private_one_lies(vault: sf.Vault) -> None:
    Path("regions.csv").write_text("city,region\nnorth,up\nsouth,down\n")
    Path("regions.toml").write_text(
        'table = "r"\n[columns.city]\nkind = "text"\n'
        '[columns.region]\nkind = "text"\nvalues = ["up", "down"]\nnullable = false\n'
    )
    vault.close()
    add_public(
        CLINIC,
        name="regions",
        source="regions.csv",
        schema=Path("regions.toml"),
        keys={("city",): 1},
    )
    with sf.open(CLINIC) as opened:
        answer = opened.query(
            "SELECT region, COUNT(*) AS n FROM visits JOIN regions USING (city) GROUP BY region",
            epsilon=4,
        )
    counts = dict(zip(*answer.table.to_pydict().values(), strict=True))
    assert abs(counts["up"] - 2666) < 10  # as above


def test_private_tables_are_joined_on_the_person_in_one_place(vault: sf.Vault) -> None:
    Path("stays.csv").write_bytes(Path("visits.csv").read_bytes())
    vault.close()
    add("stays", "stays.csv", population="visits", epsilon=None)
    add("stays_elsewhere", "stays.csv", population="visits", epsilon=None)
    path = CLINIC / "vault.toml"
    text = path.read_text()
    moved = 'stays_elsewhere]\nsource = "postgresql://nowhere/db#stays"'
    path.write_text(text.replace('stays_elsewhere]\nsource = "../stays.csv"', moved))
    sql = "SELECT COUNT(DISTINCT v.patient) AS n FROM visits v JOIN {} s ON v.patient = s.patient"
    with sf.open(CLINIC) as opened:
        answer = opened.query(sql.format("stays"), epsilon=4)
        # Noise of scale 1/4: beyond 6 with probability exp(-24).
        assert abs(answer.table["n"][0].as_py() - 2000) < 6
        assert code_of(opened.query, sql.format("stays_elsewhere"), epsilon=1) == "join_not_allowed"
        assert opened.ledger.account("visits").spent == units(4)


def units(epsilon: int) -> Any:
    return ((epsilon * 10**9,),)


@pytest.mark.parametrize(
    ("sql", "code"),
    [
        ("SELECT SUM(patient) FROM visits", "bounds_missing"),
        ("SELECT note, COUNT(*) FROM visits GROUP BY note", "parameter_missing"),
        ("SELECT * FROM visits", "column_not_aggregated"),
        ("SELECT COUNT(*) FROM nowhere", "table_unknown"),
        ("DROP TABLE visits", "question_not_supported"),
    ],
)
def test_F9_what_is_not_declared_is_refused_and_costs_nothing(
    sql: str, code: str, vault: sf.Vault
) -> None:
    assert code_of(vault.query, sql, epsilon=1) == code
    assert vault.ledger.account("visits").spent == units(0)


def test_a_file_that_is_gone_is_noticed_before_the_charge(vault: sf.Vault) -> None:
    Path("visits.csv").unlink()
    assert code_of(vault.query, COUNT, epsilon=1) == "source_missing"
    assert vault.ledger.account("visits").spent == units(0)


def test_F11_only_the_operator_learns_why_a_charged_question_failed(vault: sf.Vault) -> None:
    Path("visits.csv").write_text("patient,city,cost,note\nalice,north,1\n")
    with pytest.raises(SfumatoError) as caught:
        vault.query(COUNT, epsilon=1)
    assert caught.value.code == "answer_failed"
    assert "alice" not in caught.value.message
    log = CLINIC / "failures.log"
    assert "charge 7: SourceError: " in log.read_text()
    assert log.stat().st_mode & 0o077 == 0
    assert vault.ledger.account("visits").spent == units(1)


def test_F14_one_row_more_changes_neither_plan_nor_noise(vault: sf.Vault) -> None:
    before = vault.explain(COUNT, epsilon=1).to_json()
    first = vault.query(COUNT, epsilon=1).error
    vault.close()
    path = CLINIC / "vault.toml"
    with Path("visits.csv").open("a") as rows:
        rows.write("99999,north,100,new\n")
    path.write_text(path.read_text().replace("snapshot = 1", "snapshot = 2"))
    with sf.open(CLINIC) as again:
        assert again.explain(COUNT, epsilon=1).to_json() == before
        assert again.query(COUNT, epsilon=1).error == first


def test_a_table_under_a_budget_in_memory(private: sf.Private) -> None:
    sql = "SELECT city, COUNT(*) AS n, AVG(age) AS mean FROM people GROUP BY city"
    answer = private.query(sql, epsilon=4)
    frame = answer.to_pandas().set_index("city")
    # A third of epsilon 4 for each count, sd below 2; the rest moves the mean of 500 far less.
    assert abs(frame.loc["a", "n"] - 500) < 30
    assert abs(frame.loc["b", "mean"] - 30) < 10
    assert private.remaining["epsilon"] == 1
    assert code_of(private.query, "SELECT COUNT(*) FROM people", epsilon=2) == "budget_exhausted"
    assert private.explain(sql, epsilon=4).to_json()["cost"]


def test_another_unit_than_the_schemas_is_checked() -> None:
    columns = (sf.Column("who", sf.Kind.TEXT), sf.Column("age", sf.Kind.INTEGER))
    table = sf.read(pa.table({"who": ["a"], "age": [1]}), sf.Schema("people", columns))
    assert code_of(sf.protect, table, unit=sf.Entity("nobody", 1), epsilon=1) == ("column_unknown")
    assert code_of(sf.protect, table, unit=sf.Entity("who", 1), epsilon=1) == ("unit_invalid")
    assert code_of(sf.protect, table, epsilon=0) == "parameter_out_of_range"
