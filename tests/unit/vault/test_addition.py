"""A refused addition changes nothing; one that was cut short is finished by the next opening."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import csv as arrow_csv
from tests.fixtures.ledgers import (
    VAULT,
    add,
    add_publicly,
    balances,
    code_of,
    make,
    refusal,
    rows,
    state,
)

from sfumato.errors import OutputError
from sfumato.vault import registration as addition
from sfumato.vault.registration import add_public
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make()
    arrow_csv.write_csv(rows(), "visits.csv")
    arrow_csv.write_csv(rows(1000), "others.csv")
    arrow_csv.write_csv(rows(2000), "regions.csv")


REFUSED: list[tuple[str, list[dict[str, Any]]]] = [
    ("name_taken", [{"name": "visits"}, {"name": "VISITS"}, {"name": "regions"}]),
    ("name_invalid", [{"name": "a b"}, {"population": "a/b"}]),
    ("file_unreadable", [{"schema": Path("nowhere.toml")}]),
    ("schema_malformed", [{"schema": Path("visits.csv")}]),
    ("source_missing", [{"source": "nowhere.csv"}]),
    ("format_unknown", [{"source": "t.toml"}]),
    ("address_malformed", [{"source": "duckdb:///x"}]),
    ("column_unknown", [{"source": "short.csv"}]),
    ("column_unknown", [{"unit": "nobody", "max_rows": 2}]),
    ("unit_invalid", [{"unit": "name", "max_rows": 2}]),
    ("column_unsuitable", [{"source": "same.csv", "unit": "who", "max_rows": 2}]),
    ("parameter_missing", [{"unit": "who"}]),
    ("parameter_missing", [{"unit": None, "max_rows": 3}]),
    ("parameter_out_of_range", [{"unit": "who", "max_rows": 0}]),
    ("bounds_missing", [{"schema": Path("loose.toml")}]),
    ("purposes_invalid", [{"consent": "cost"}]),
    ("column_unknown", [{"consent": "nothing"}]),
    ("parameter_missing", [{"epsilon": None}]),
    ("parameter_out_of_range", [{"epsilon": "0"}]),
    ("parameter_out_of_range", [{"epsilon": "51"}]),
    ("parameter_type_wrong", [{"epsilon": "many"}]),
    ("parameter_out_of_range", [{"delta": "1"}]),
    (
        "budget_changed",
        [{"population": "visits", "epsilon": "2"}, {"name": "gone", "epsilon": "2"}],
    ),
    (
        "dataset_attached",
        [
            {"source": "visits.csv"},
            {"source": "removed.csv"},
            {"name": "gone", "population": "visits", "epsilon": None},
            {"source": "visits.csv", "population": "gone"},
        ],
    ),
    ("dataset_attached", [{"source": "regions.csv"}]),
]


@pytest.fixture
def used() -> None:
    """A vault with a private and a public data set, and one of which the entry was removed."""
    arrow_csv.write_csv(rows(3000), "removed.csv")
    Path("short.csv").write_text("who,name\n1,a\n")
    one = rows().slice(1, 1)
    arrow_csv.write_csv(pa.concat_tables([one, one]), "same.csv")
    Path("loose.toml").write_text(Path("t.toml").read_text().replace("bounds = [0.0, 100.0]", ""))
    add("visits", "visits.csv")
    add_publicly("regions", "regions.csv")
    before = (VAULT / "vault.toml").read_bytes()
    add("gone", "removed.csv")
    (VAULT / "vault.toml").write_bytes(before)


@pytest.mark.usefixtures("used")
def test_F16_a_refused_addition_changes_nothing() -> None:
    for code, each in REFUSED:
        for changes in each:
            given = {"name": "others", "source": "others.csv", **changes}
            assert refusal(add, **given) == code, changes
    add("others", "others.csv")


@pytest.mark.usefixtures("used")
def test_a_refused_public_addition_changes_nothing() -> None:
    given = {"name": "others", "source": "others.csv", "schema": Path("t.toml"), "keys": {}}
    for changes, code in (
        ({"name": "visits"}, "name_taken"),
        ({"name": "a b"}, "name_invalid"),
        ({"source": "nowhere.csv"}, "source_missing"),
        ({"source": "short.csv"}, "column_unknown"),
        ({"schema": Path("nowhere.toml")}, "file_unreadable"),
        ({"keys": {("town",): 1}}, "column_unknown"),
        ({"source": "visits.csv"}, "dataset_attached"),
        ({"source": "removed.csv"}, "dataset_attached"),
    ):
        assert refusal(add_public, VAULT, **{**given, **changes}) == code, changes


def test_a_refused_name_is_still_free() -> None:
    add("visits", "visits.csv")
    assert code_of(add, "again", "visits.csv") == "dataset_attached"
    add("again", "others.csv")
    assert {one["account"] for one in balances(VAULT)} == {"visits", "again"}


def test_what_cannot_be_written_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OutputError("output_unwritable", "Cannot write.")

    before = state()
    with monkeypatch.context() as broken:
        broken.setattr(addition, "save", full)
        assert code_of(add, "visits", "visits.csv") == "output_unwritable"
    assert state() == before
    add("visits", "visits.csv")


class Died(BaseException):
    """A process that ends at this point."""


def _die(*_: object, **__: object) -> None:
    raise Died


@pytest.mark.parametrize("step", ["write_secret", "save", "open_accounts"])
@pytest.mark.parametrize("heal", [lambda: open_vault(VAULT).close(), lambda: None])
def test_a_death_between_two_steps_is_healed(
    monkeypatch: pytest.MonkeyPatch, step: str, heal: Callable[[], None]
) -> None:
    with monkeypatch.context() as dying:
        dying.setattr(addition, step, _die)
        with pytest.raises(Died):
            add("visits", "visits.csv")
    heal()
    if step != "open_accounts":
        add("visits", "visits.csv")
    assert code_of(add, "visits", "visits.csv") == "name_taken"
    assert code_of(add, "again", "./visits.csv") == "dataset_attached"
    add("others", "others.csv")
    with open_vault(VAULT) as vault:
        assert vault.query("SELECT COUNT(*) AS n FROM visits", epsilon="0.5").charged
    dead = state()
    open_vault(VAULT).close()
    assert state() == dead
    kept = [path.name for path in VAULT.iterdir() if path.suffix == ".key"]
    assert kept == ["fingerprint.key"]


def test_death_after_the_configuration_loses_no_binding(monkeypatch: pytest.MonkeyPatch) -> None:
    empty = (VAULT / "vault.toml").read_bytes()
    with monkeypatch.context() as dying:
        dying.setattr(addition, "open_accounts", _die)
        with pytest.raises(Died):
            add("visits", "visits.csv")
    open_vault(VAULT).close()
    (VAULT / "vault.toml").write_bytes(empty)
    Path("visits.csv").rename("moved.csv")
    assert code_of(add, "again", "moved.csv") == "dataset_attached"
