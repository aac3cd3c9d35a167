"""Creating a vault and adding data sets: what is promised is written down once and for good."""

from __future__ import annotations

import stat
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import balances, code_of, verified_ledger

from sfumato.data.schema.unit import Entity, Rows
from sfumato.errors import CallerError, LedgerError, OutputError
from sfumato.vault import accounts, registration
from sfumato.vault.config import PrivateSet, PublicSet, load, save
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration, add_public
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from sfumato.data.schema.unit import Unit

pytestmark = pytest.mark.usefixtures("files")
CLINIC = Path("clinic")


def add(**changes: Any) -> PrivateSet:
    options = {"name": "visits", "source": "visits.csv", "schema": Path("visits.toml")}
    return Registration(**{**options, "epsilon": "1", **changes}).add_to(CLINIC)


def replaced(old: str, new: str) -> None:
    schema = Path("visits.toml")
    text = schema.read_text()
    assert old in text
    schema.write_text(text.replace(old, new))


def test_a_vault_is_a_private_folder_with_its_head_outside() -> None:
    config = create(CLINIC)
    assert stat.S_IMODE(CLINIC.stat().st_mode) == 0o700
    assert stat.S_IMODE((CLINIC / "vault.toml").stat().st_mode) == 0o600
    assert config.head == Path("clinic.head").resolve()
    assert load(CLINIC).head.resolve() == config.head
    assert verified_ledger(CLINIC)["entries"] == 1


def test_a_vault_is_made_once() -> None:
    create(CLINIC)
    assert code_of(create, folder=CLINIC) == "output_exists"
    assert code_of(create, folder=Path("other"), head=Path("clinic.head")) == "ledger_taken"
    assert code_of(create, folder=Path("inside"), head=Path("inside/head")) == "head_unreadable"
    assert code_of(create, folder=Path("visits.csv/deep")) == "output_unwritable"


def test_a_folder_with_data_may_become_a_vault() -> None:
    create(Path())
    assert Path("vault.toml").exists()


def test_L6_a_restored_folder_is_refused_until_acknowledged() -> None:
    create(CLINIC)
    before = {path: path.read_bytes() for path in CLINIC.iterdir() if path.is_file()}
    add()
    after = (CLINIC / "vault.toml").read_bytes()
    for path in CLINIC.glob("ledger.sqlite*"):
        path.unlink()
    for path, content in before.items():
        path.write_bytes(content)
    (CLINIC / "vault.toml").write_bytes(after)
    with pytest.raises(LedgerError) as caught:
        open_vault(CLINIC)
    assert caught.value.code == "ledger_rolled_back"
    accounts.acknowledge(CLINIC, operator="ann")
    open_vault(CLINIC).close()


def test_what_is_added_is_written_down_beside_what_the_owner_wrote() -> None:
    create(CLINIC)
    path = CLINIC / "vault.toml"
    path.write_text(path.read_text() + "# mine\n")
    held = add(epsilon="0.5", delta="1e-6")
    assert held == PrivateSet("../visits.csv", "../visits.toml", Entity("patient", 2, 2), "visits")
    config = load(CLINIC)
    assert config.datasets == {"visits": held}
    assert "# mine\n" in path.read_text()
    (account,) = balances(CLINIC)
    assert account["account"] == "visits"
    assert account["remaining"]["epsilon"] == 0.5


@pytest.mark.parametrize(
    ("given", "unit"),
    [
        ({}, Entity("patient", 2, 2)),
        ({"unit": "row"}, Rows()),
        ({"max_rows": 5}, Entity("patient", 5, 2)),
        ({"unit": "patient", "max_rows": 5, "max_groups": 1}, Entity("patient", 5, 1)),
        ({"unit": "cost", "max_rows": 7}, Entity("cost", 7)),
    ],
)
def test_the_unit_comes_from_the_schema_unless_given(given: dict[str, Any], unit: Unit) -> None:
    create(CLINIC)
    assert add(**given).unit == unit


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"unit": "nobody", "max_rows": 1}, "column_unknown"),
        ({"max_rows": 0}, "parameter_out_of_range"),
        ({"epsilon": None}, "parameter_missing"),
        ({"epsilon": "0"}, "parameter_out_of_range"),
        ({"epsilon": "51"}, "parameter_out_of_range"),
        ({"epsilon": "many"}, "parameter_type_wrong"),
        ({"delta": "1"}, "parameter_out_of_range"),
        ({"name": "visits; DROP"}, "name_invalid"),
        ({"population": "a/b"}, "name_invalid"),
        ({"source": "nowhere.csv"}, "source_missing"),
        ({"schema": Path("nowhere.toml")}, "file_unreadable"),
    ],
)
def test_what_cannot_be_added_leaves_no_trace(given: dict[str, Any], code: str) -> None:
    create(CLINIC)
    before = (CLINIC / "vault.toml").read_bytes()
    assert code_of(add, **given) == code
    assert (CLINIC / "vault.toml").read_bytes() == before
    assert verified_ledger(CLINIC)["entries"] == 1


def test_rows_of_a_row_cannot_be_bounded() -> None:
    create(CLINIC)
    replaced('{ column = "patient", max_rows = 2, max_groups = 2 }', '"row"')
    assert code_of(add, max_rows=3) == "parameter_missing"
    assert code_of(add, unit="patient") == "parameter_missing"


def test_F9_a_number_without_bounds_is_refused_with_what_to_write_instead() -> None:
    create(CLINIC)
    replaced("bounds = [0, 100]\n", "")
    with pytest.raises(CallerError) as caught:
        add()
    assert caught.value.code == "bounds_missing"
    assert "[columns.cost]: bounds = [0, 110]" in caught.value.message


def test_F16_registering_again_never_gives_a_fresh_budget() -> None:
    create(CLINIC)
    empty = (CLINIC / "vault.toml").read_bytes()
    add()
    with open_vault(CLINIC) as vault:
        vault.query("SELECT COUNT(*) AS n FROM visits", epsilon="0.75")
    assert code_of(add) == "name_taken"
    assert code_of(add, name="VISITS") == "name_taken"
    assert code_of(add, name="again") == "dataset_attached"
    (CLINIC / "vault.toml").write_bytes(empty)
    assert code_of(add, epsilon="2") == "budget_changed"
    assert code_of(add, name="again") == "dataset_attached"
    add()
    (account,) = (one for one in balances(CLINIC) if one["account"] == "visits")
    assert account["remaining"]["epsilon"] == 0.25


def test_data_sets_about_the_same_people_share_one_budget() -> None:
    create(CLINIC)
    Path("stays.csv").write_bytes(Path("visits.csv").read_bytes())
    add(population="patients")
    assert code_of(add, name="stays", source="stays.csv", population="patients", epsilon="2") == (
        "budget_changed"
    )
    add(name="stays", source="stays.csv", population="patients", epsilon=None)
    with open_vault(CLINIC) as vault:
        for name in ("visits", "stays"):
            answer = vault.query(f"SELECT COUNT(*) AS n FROM {name}", epsilon="0.25")
    assert answer.remaining["epsilon"] == 0.5


def test_a_public_table_says_which_columns_are_unique() -> None:
    create(CLINIC)
    Path("regions.csv").write_text("city,region\nnorth,up\nsouth,down\n")
    Path("regions.toml").write_text(
        'table = "regions"\n[columns.city]\nkind = "text"\n[columns.region]\nkind = "text"\n'
    )
    given = {"name": "regions", "source": "regions.csv", "schema": Path("regions.toml")}
    with pytest.raises(CallerError) as caught:
        add_public(CLINIC, keys={("town",): 1}, **given)  # type: ignore[arg-type]
    assert caught.value.code == "column_unknown"
    held = add_public(CLINIC, keys={("city",): 1}, **given)  # type: ignore[arg-type]
    assert load(CLINIC).datasets == {"regions": held}


def test_a_public_table_is_counted_when_it_is_added() -> None:
    """How many rows share a value; what is declared goes first, an older vault knows nothing."""
    create(CLINIC)
    Path("towns.csv").write_text("city,region\nnorth,up\nsouth,up\neast,up\neast,\n")
    Path("towns.toml").write_text(
        'table = "towns"\n[columns.city]\nkind = "text"\n[columns.region]\nkind = "text"\n'
    )
    add_public(
        CLINIC, name="towns", source="towns.csv", schema=Path("towns.toml"), keys={("city",): 1}
    )
    held = load(CLINIC).datasets["towns"]
    assert isinstance(held, PublicSet)
    assert held.fanouts == {"city": 2, "region": 3}
    assert held.bounds == {("city",): 1, ("region",): 3}
    path = CLINIC / "vault.toml"
    kept = [line for line in path.read_text().splitlines() if not line.startswith("fanouts")]
    path.write_text("\n".join(kept))
    older = load(CLINIC).datasets["towns"]
    assert isinstance(older, PublicSet)
    assert older.bounds == {("city",): 1}
    path.write_text(path.read_text() + "\nfanouts = { region = 0 }\n")
    assert code_of(load, folder=CLINIC) == "vault_config_invalid"


def test_a_limit_is_set_in_the_ledger_and_in_the_configuration() -> None:
    create(CLINIC)
    add()
    accounts.set_limit(CLINIC, "visits", epsilon="2", delta="1e-6", operator="ann")
    with open_vault(CLINIC) as vault:
        assert vault.query("SELECT COUNT(*) AS n FROM visits", epsilon="1.5").charged
    assert code_of(
        accounts.set_limit, folder=CLINIC, account="visit", epsilon=1, delta=0, operator="ann"
    ) == ("account_unknown")


def test_a_limit_that_was_only_written_is_refused() -> None:
    create(CLINIC)
    add()
    path = CLINIC / "vault.toml"
    path.write_text(path.read_text().replace('epsilon = "1"', 'epsilon = "9"'))
    assert code_of(open_vault, path=CLINIC) == "budget_changed"


def test_an_unwritable_folder_is_refused() -> None:
    with pytest.raises(OutputError):
        create(Path("/proc/clinic"))


def test_who_adds_at_the_same_time_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    create(CLINIC)

    def slowly(folder: Path, text: str) -> None:
        time.sleep(0.05)  # between reading and writing, when another would read the old text
        save(folder, text)

    monkeypatch.setattr(registration, "save", slowly)
    names = ["one", "two", "three", "four"]
    with ThreadPoolExecutor(len(names)) as threads:
        list(threads.map(lambda name: add(name=name, population="visits"), names))
    assert sorted(load(CLINIC).datasets) == sorted(names)
    assert set(load(CLINIC).budgets) == {"visits"}
