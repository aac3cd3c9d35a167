"""Questions see who agreed to their purpose, by the newest word, and nothing tells of a change."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.data.engines.duckdb import DuckDB
from sfumato.errors import SfumatoError
from sfumato.release.files_in_use import consent_head
from sfumato.vault.gatekeeper import Gatekeeper

if TYPE_CHECKING:
    from collections.abc import Callable

COUNT = "SELECT COUNT(*) AS n FROM visits"
SURE = 40
"""Noise of scale 2 is larger with probability exp(-20)."""


def counted(vault: sf.Vault, where: str = "cost < 50", purpose: str = "care", **more: Any) -> int:
    found = vault.query(f"{COUNT} WHERE {where}", epsilon=1, purpose=purpose, **more)
    return int(found.table["n"][0].as_py())


def say(vault: sf.Vault, answer: str, people: range) -> None:
    lines = "".join(f"{one},care,{answer}\n" for one in people)
    Path("said.csv").write_text("person,purpose,agreed\n" + lines)
    vault.consent().import_file("said.csv")


def spent(vault: sf.Vault) -> int:
    return len([one for one in vault.ledger.entries() if '"kind":"charge"' in one.body])


def test_nobody_is_seen_before_they_agree_and_each_for_what_they_agreed_to(
    vault: sf.Vault, request: pytest.FixtureRequest
) -> None:
    assert abs(counted(vault)) < SURE
    request.getfixturevalue("agreeing")
    assert abs(counted(vault, "cost < 51") - 400) < SURE
    assert abs(counted(vault, "cost < 51", "research") - 200) < SURE


DOORS: dict[str, Callable[..., object]] = {
    "query": lambda vault, **how: vault.query(COUNT, epsilon=1, **how),
    "publish": lambda vault, **how: vault.publish(
        "histogram", "visits", columns=["cost"], epsilon=1, **how
    ),
    "synthesize": lambda vault, **how: vault.synthesize(
        "visits", epsilon=1, columns=["cost"], method="independent", **how
    ),
    "watch": lambda vault, **how: vault.private("visits", **how).above(
        columns=["cost"], workload=[[[0, 50]]], threshold=9, epsilon=1
    ),
    "explore": lambda vault, **how: (private := vault.private("visits", **how)).check_all(
        [private.plan("histogram", columns=["cost"], epsilon=1)]
    ),
    "rows": lambda vault, **how: vault.private("visits", **how).owners_rows().__enter__(),
}


@pytest.mark.parametrize("door", DOORS)
def test_every_door_asks_what_it_is_for_before_it_charges(agreeing: sf.Vault, door: str) -> None:
    opened = DOORS[door]
    assert code_of(lambda: opened(agreeing)) == "parameter_missing"
    for unknown in ("Care", "", "care "):
        assert code_of(lambda: opened(agreeing, purpose=unknown)) == "purpose_unknown"  # noqa: B023
    assert spent(agreeing) == 0
    opened(agreeing, purpose="care")
    assert spent(agreeing) == (door not in ("explore", "rows"))


def test_what_it_costs_is_told_without_a_purpose(vault: sf.Vault) -> None:
    assert vault.explain(COUNT, epsilon=1).to_json()["cost"]["epsilon"] == "1"


def test_the_owners_look_and_the_gate_of_a_release_have_the_rows_of_the_purpose(
    agreeing: sf.Vault,
) -> None:
    with agreeing.private("visits", purpose="research").owners_rows() as rows:
        assert rows.engine.run(_people(rows)).num_rows == 100
    private = agreeing.private("visits", purpose="research")
    found = private.synthesize(
        epsilon=1, columns=["cost"], method="independent", attacks=True
    ).holder
    assert found is not None


def _people(rows: Any) -> Any:
    from sqlglot import exp

    return exp.select(exp.column("patient", quoted=True)).distinct().from_(rows.table)


def test_a_withdrawal_holds_from_the_next_fresh_answer_and_changes_nothing_about_a_repeat(
    agreeing: sf.Vault,
) -> None:
    first = agreeing.query(COUNT, epsilon=1, purpose="care")
    before = agreeing.ledger.entries()
    length = len(list(before))
    say(agreeing, "no", range(150))
    assert len(list(agreeing.ledger.entries())) == length, "the ledger's numbers tell of it"
    again = agreeing.query(COUNT, epsilon=1, purpose="care")
    assert (again.table, again.receipt, again.charged) == (first.table, first.receipt, False)
    assert abs(counted(agreeing) - 100) < SURE
    agreeing.consent().give(0, "care")
    agreeing.consent().give("299", "care")
    assert abs(counted(agreeing, "cost < 52") - 104) < SURE


def test_whoever_withdraws_between_charge_and_reading_is_not_read(
    agreeing: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    reserve: Any = Gatekeeper._reserve

    def then_withdrawn(*arguments: Any) -> Any:
        receipt = reserve(*arguments)
        say(agreeing, "no", range(200))
        return receipt

    monkeypatch.setattr(Gatekeeper, "_reserve", then_withdrawn)
    assert abs(counted(agreeing)) < SURE
    [noted] = _versions(agreeing)
    assert noted == {"visits": agreeing.consent().version}


def _versions(vault: sf.Vault) -> list[dict[str, int]]:
    bodies = [json.loads(one.body) for one in vault.ledger.entries()]
    return [one["consent"]["versions"] for one in bodies if "consent" in one]


def test_the_version_stands_in_the_ledger_where_no_receipt_tells_it(agreeing: sf.Vault) -> None:
    answer = agreeing.query(COUNT, epsilon=1, purpose="care")
    agreeing.consent().withdraw(1)
    counted(agreeing)
    assert _versions(agreeing) == [{"visits": 2}, {"visits": 3}]
    bodies = [json.loads(one.body) for one in agreeing.ledger.entries()]
    salts = {one["consent"]["salt"] for one in bodies if "consent" in one}
    assert [len(one) for one in salts] == [32, 32]
    told = json.dumps([answer.to_json(), answer.provenance.parameters, answer.guarantee.parameters])
    assert "consent" not in told
    agreeing.verify()


def test_the_work_of_a_question_does_not_tell_whether_somebody_withdrew(
    agreeing: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    lent: list[int] = []
    for name in ("lend", "view", "run"):
        real: Any = getattr(DuckDB, name)

        def noting(*arguments: Any, name: str = name, real: Any = real) -> Any:
            done.append(name)
            lent.extend([arguments[1].num_rows] if name == "lend" else [])
            return real(*arguments)

        monkeypatch.setattr(DuckDB, name, noting)
    counted(agreeing, "cost < 60")  # opens, and lends all who agreed
    done.clear()
    counted(agreeing, "cost < 61")
    without, done[:] = list(done), []
    agreeing.consent().withdraw(7)
    counted(agreeing, "cost < 62")
    assert done == without != []
    assert lent == [200, 0, 0, 1]


@pytest.mark.usefixtures("agreeing")
def test_both_the_column_and_the_registry_must_say_yes() -> None:
    path = Path("clinic/vault.toml")
    path.write_text(path.read_text().replace("purposes = ", 'consent = "agreed"\npurposes = '))
    with sf.open("clinic") as vault:
        assert abs(counted(vault) - 360) < SURE


JOINED = (
    "SELECT COUNT(*) AS n FROM visits JOIN stays ON visits.patient = stays.patient "
    "WHERE stays.cost < {}"
)


def test_joined_data_sets_of_the_same_people_see_the_same_people(agreeing: sf.Vault) -> None:
    Path("stays.csv").write_text(Path("visits.csv").read_text().replace(",5", ",6"))
    agreeing.add("stays", "stays.csv", "visits.toml", population="visits", purposes=["care"])
    assert agreeing.consents == ("visits",)
    assert code_of(lambda: agreeing.query(JOINED.format(50), epsilon=1, purpose="research")) == (
        "purpose_unknown"
    )
    say(agreeing, "no", range(100))
    found = agreeing.query(JOINED.format(50), epsilon=2, purpose="care").table["n"][0].as_py()
    # Two rows of each of a hundred people; two hundred were there before.
    assert abs(found - 200) < 2 * SURE
    assert _versions(agreeing)[-1] == {"visits": agreeing.consent().version}


def test_a_registry_that_lost_changes_answers_nothing_fresh_and_charges_nothing(
    agreeing: sf.Vault,
) -> None:
    first = counted(agreeing)
    registry = Path("clinic/consent.sqlite")
    saved = consent_head(Path("clinic.head")).read_bytes()
    agreeing.close()
    kept = registry.read_bytes()
    with sf.open("clinic") as vault:
        vault.consent().withdraw(1)
    registry.write_bytes(kept)
    with sf.open("clinic") as vault:
        before = spent(vault)
        assert code_of(lambda: counted(vault, "cost < 70")) == "consent_rolled_back"
        assert code_of(lambda: vault.consent().withdraw(1)) == "consent_rolled_back"
        assert spent(vault) == before
        assert counted(vault) == first
        assert vault.consent_registries.acknowledge(operator="Ann") == 300
        assert abs(counted(vault, "cost < 70")) < SURE
    assert saved != consent_head(Path("clinic.head")).read_bytes()


def test_a_server_that_has_people_in_hand_notices_that_every_yes_is_void(
    agreeing: sf.Vault,
) -> None:
    assert abs(counted(agreeing) - 400) < SURE
    consent_head(Path("clinic.head")).write_bytes(bytes(8192))
    assert code_of(lambda: counted(agreeing, "cost < 71")) == "consent_rolled_back"
    with sf.open("clinic") as other:
        other.consent_registries.acknowledge(operator="Ann")
    assert abs(counted(agreeing, "cost < 71")) < SURE


@pytest.mark.usefixtures("agreeing")
def test_a_principal_is_asked_as_the_owner_is() -> None:
    path = Path("clinic/vault.toml")
    path.write_text(path.read_text() + '[principals.alice.budgets.visits]\nepsilon = "2"\n')
    with sf.open("clinic") as vault:
        assert code_of(lambda: vault.query(COUNT, epsilon=1, principal="alice")) == (
            "parameter_missing"
        )
        assert abs(counted(vault, principal="alice") - 400) < SURE


def test_a_registry_that_cannot_be_opened_is_told_before_a_charge(agreeing: sf.Vault) -> None:
    agreeing.close()
    Path("clinic/consent.sqlite").write_bytes(b"not a database" * 1000)
    with sf.open("clinic") as vault:
        with pytest.raises(SfumatoError) as caught:
            counted(vault)
        assert caught.value.code in ("consent_unavailable", "ledger_failed")
        assert spent(vault) == 0
