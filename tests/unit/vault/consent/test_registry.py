"""Registries as their owner uses them from Python and by command."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.cli.main import run
from sfumato.vault.vault import ledger_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.vault.consent.registry import ConsentRegistry


def test_a_person_gives_withdraws_and_gives_again(vault: sf.Vault) -> None:
    registry = vault.consent()
    assert registry.give(7, "care") == {
        "population": "visits", "changed": 1, "unchanged": 0, "older": 0, "version": 2,
    }  # fmt: skip
    assert registry.give("7", "care")["unchanged"] == 1
    assert registry.withdraw(7)["changed"] == 2
    assert registry.withdraw(7)["changed"] == 0
    assert registry.withdraw(123456789)["changed"] == 2, "who is unknown may say no"
    told = registry.show(7)
    assert told["purposes"] == {"care": "no", "research": "no"}
    assert [(one["purpose"], one["agreed"]) for one in told["history"]] == [
        ("care", "yes"), ("care", "no"), ("research", "no"),
    ]  # fmt: skip
    assert registry.show(8)["purposes"] == {"care": "never asked", "research": "never asked"}
    assert registry.show()["purposes"]["care"] == {"yes": 0, "no": 2}
    assert repr(registry) == "<ConsentRegistry: visits: care 0 yes 2 no, research 0 yes 2 no>"
    assert "<table" in (registry._repr_html_() or "")


def test_changes_are_taken_together_or_not_at_all(vault: sf.Vault) -> None:
    registry = vault.consent()
    said: list[tuple[str | int, str, bool, str | None]]
    said = [(1, "care", True, None), ("2", "care", True, "2020-01-01"), (3, "care", False, None)]
    assert registry.change(said)["changed"] == 3
    assert registry.change([*said, (4, "care", True, None)])["changed"] == 1
    before = registry.version
    bad = [(5, "care", True, None), (6, "cure", True, None), (7, "care", "maybe", None)]
    assert code_of(lambda: registry.change(bad)) == "file_malformed"  # type: ignore[arg-type]
    assert registry.change([])["changed"] == 0
    assert registry.version == before


def test_what_is_exported_can_be_imported(agreeing: sf.Vault) -> None:
    registry = agreeing.consent()
    registry.withdraw(3)
    told = registry.export("standing.csv")
    assert told["rows"] == 300
    assert Path("standing.csv").stat().st_mode & 0o077 == 0
    assert registry.import_file("standing.csv")["changed"] == 0
    with sf.init("other") as vault:
        vault.add("people", "visits.csv", "visits.toml", epsilon=1, purposes=["care", "research"])
        other = vault.consent("people")
        assert other.import_file("standing.csv")["changed"] == 300
        assert other.to_csv() == registry.to_csv()


WRONG: dict[str, tuple[str, Callable[[ConsentRegistry], object]]] = {
    "purpose": ("choice_unknown", lambda it: it.give(1, "cure")),
    "person": ("person_id_invalid", lambda it: it.give("one", "care")),
    "boolean": ("person_id_invalid", lambda it: it.withdraw(True)),
    "nobody": ("person_id_invalid", lambda it: it.withdraw("")),
    "time": ("time_malformed", lambda it: it.give(1, "care", time="2999-01-01")),
    "operator": ("name_invalid", lambda it: it.give(1, "care", operator="a\nb")),
    "type": ("parameter_type_wrong", lambda it: it.give(1, 2)),  # type: ignore[arg-type]
}


def test_what_makes_no_sense_is_refused_and_nothing_is_written(vault: sf.Vault) -> None:
    registry = vault.consent()
    for name, (code, wrong) in WRONG.items():
        assert code_of(wrong, registry) == code, name
    assert registry.version == 1


def test_a_registry_is_found_by_its_people_or_a_data_set(vault: sf.Vault) -> None:
    assert vault.consents == ("visits",)
    assert vault.purposes("visits") == ("care", "research")
    assert code_of(lambda: vault.consent("visit")) == "registry_unknown"
    with sf.init("empty") as other:
        assert other.consents == ()
        assert code_of(other.consent) == "registry_unknown"
        assert not Path("empty/consent.sqlite").exists()


@pytest.mark.filterwarnings("ignore:The people of 'visits' are asked")
def test_one_source_has_one_list_of_purposes(vault: sf.Vault) -> None:
    def added(source: str, purposes: list[str] | None) -> str:
        how = {"population": "visits", "purposes": purposes}
        return code_of(lambda: vault.add("again", source, "visits.toml", **how))  # type: ignore[arg-type]

    Path("link.csv").symlink_to("visits.csv")
    Path("copy.csv").write_bytes(Path("visits.csv").read_bytes())
    for source in ("visits.csv", "link.csv", "copy.csv"):
        assert added(source, None) == "purposes_invalid"
        assert added(source, ["care"]) == "purposes_invalid"
    assert vault.datasets == ("visits",)
    both = ["research", "care"]
    vault.add("again", "visits.csv", "visits.toml", population="visits", purposes=both)
    # Also where a source becomes that one later.
    Path("later.csv").write_text("patient,agreed,cost\n1,true,5\n2,true,5\n2,true,5\n")
    vault.add("later", "later.csv", "visits.toml", population="visits")
    Path("later.csv").unlink()
    Path("later.csv").symlink_to("visits.csv")
    asked = "SELECT COUNT(*) AS n FROM later"
    assert code_of(lambda: vault.query(asked, epsilon=1)) == "source_unready"


def test_purposes_need_people_that_can_be_told_apart(files: Path) -> None:
    with sf.init(files / "other") as vault:

        def added(**how: object) -> str:
            given = {"epsilon": 1, "purposes": ["care"], **how}
            return code_of(lambda: vault.add("x", "visits.csv", "visits.toml", **given))  # type: ignore[arg-type]

        assert added(unit="row") == "purposes_invalid"
        assert added(purposes=[]) == "purposes_invalid"
        assert added(purposes=["care", "CARE"]) == "purposes_invalid"
        assert added(purposes=["for care"]) == "name_invalid"
        assert added(purposes=[1]) == "parameter_type_wrong"
        assert added(unit="agreed", max_rows=2) == "person_id_invalid"
        assert added(public=True, epsilon=None) == "options_conflict"
        assert vault.datasets == ()


def test_a_data_set_of_people_who_are_asked_elsewhere_is_told_of(vault: sf.Vault) -> None:
    Path("stays.csv").write_text(Path("visits.csv").read_text().replace(",5", ",6"))
    with pytest.warns(UserWarning, match="asked for consent in other data sets"):
        vault.add("stays", "stays.csv", "visits.toml", population="visits")


def test_the_registry_is_one_of_the_files_in_use(agreeing: sf.Vault) -> None:
    for name in ("clinic/consent.sqlite", "clinic.head.consent"):
        kept = Path(name).read_bytes()
        exported = code_of(agreeing.consent().export, name, overwrite=True)
        assert exported == "file_in_use"
        assert Path(name).read_bytes() == kept


def test_a_registry_that_was_never_finished_is_begun_anew(vault: sf.Vault) -> None:
    Path("clinic/consent.sqlite").touch()
    assert vault.consent().give(1, "care")["version"] == 2
    vault.close()
    Path("clinic/consent.sqlite").unlink()
    with sf.open("clinic") as again:
        assert code_of(lambda: again.consent().version) == "consent_rolled_back"


def test_to_withdraw_is_possible_when_the_ledger_is_gone(agreeing: sf.Vault) -> None:
    agreeing.close()
    Path("clinic/ledger.sqlite").unlink()
    with ledger_access(Path("clinic")) as access:
        consents = access.consent_registries
        assert consents.registry().withdraw(1)["changed"] == 2
        assert consents.verify()["version"] == 3


def test_the_command_says_what_it_did(
    agreeing: sf.Vault, capsys: pytest.CaptureFixture[str]
) -> None:
    agreeing.close()

    def told(*words: str) -> str:
        assert run(["consent", *words, "--vault", "clinic"]) == 0
        return capsys.readouterr().out

    capsys.readouterr()
    assert told("withdraw", "1", "--purpose", "care") == (
        "1 change, 0 as before. The registry of 'visits' is at version 3.\n"
    )
    assert "care: 199 yes, 1 no" in told("show")
    assert "no to care" in told("show", "1")
    assert "The registry is whole, at version 3." in told("verify")
    assert told("acknowledge").startswith("Nothing was lost")
    assert told("export", "-o", "out.csv") == "Wrote out.csv.\n"
    told_to_programs = json.loads(told("import", "out.csv", "--json"))
    assert told_to_programs == {
        "population": "visits", "changed": 0, "unchanged": 300, "older": 0, "version": 3,
    }  # fmt: skip
    Path("old.csv").write_text("person,purpose,agreed,time\n1,care,yes,2020-01-01\n")
    assert "1 yes older than a no that stands: passed over" in told("import", "old.csv")
