"""F22: one source, one budget, by whatever name, address, view or copy it comes again."""

from __future__ import annotations

import gzip
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyarrow import csv as arrow_csv
from pyarrow import parquet
from tests.fixtures.ledgers import (
    ROWS,
    VAULT,
    add,
    add_publicly,
    balances,
    check_alias,
    code_of,
    make,
    refusal,
    rows,
)
from tests.fixtures.slices import few_fast

from sfumato.vault.config import load
from sfumato.vault.creation import create
from sfumato.vault.vault import open_vault

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make()


@pytest.fixture
def files() -> None:
    """The same table as CSV and as Parquet, alone and in a folder."""
    arrow_csv.write_csv(rows(), "visits.csv")
    parquet.write_table(rows(), "visits.parquet")
    Path("parts").mkdir()
    parquet.write_table(rows(1000), "parts/a.parquet")
    parquet.write_table(rows(2000), "parts/b.parquet")


PATHS: dict[str, Callable[[], str]] = {
    "dots": lambda: "clinic/../visits.csv",
    "slashes": lambda: ".//visits.csv",
    "absolute": lambda: str(Path("visits.csv").resolve()),
    "symlink": lambda: _linked(os.symlink, "visits.csv"),
    "chain of symlinks": lambda: _linked(os.symlink, _linked(os.symlink, "visits.csv", "x.csv")),
    "linked folder": lambda: f"{_linked(os.symlink, '.', 'here')}/visits.csv",
    "hard link": lambda: _linked(os.link, "visits.csv"),
    "byte copy": lambda: shutil.copy("visits.csv", "copy.csv"),
    "compressed": lambda: _compressed(),
    "as parquet": lambda: "visits.parquet",
    "other order": lambda: _rearranged(),
    "split": lambda: _split(),
}


def _linked(link: Callable[[str, str], None], target: str, name: str = "link.csv") -> str:
    link(str(Path(target).resolve()), name)
    return name


def _compressed() -> str:
    Path("visits.csv.gz").write_bytes(gzip.compress(Path("visits.csv").read_bytes()))
    return "visits.csv.gz"


def _rearranged() -> str:
    turned = rows().select(["cost", "agreed", "who", "born", "name"])
    parquet.write_table(turned.take(list(range(ROWS))[::-1]), "turned.parquet")
    return "turned.parquet"


def _split() -> str:
    Path("split").mkdir()
    parquet.write_table(rows().slice(0, 100), "split/1.parquet")
    parquet.write_table(rows().slice(100), "split/2.parquet")
    return "split"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("alias", few_fast(PATHS, 5))
def test_a_file_by_any_name(alias: str) -> None:
    add("visits", "visits.csv")
    check_alias(PATHS[alias]())


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(
    ("first", "then"),
    [
        ("parts", "parts/a.parquet"),
        ("parts/b.parquet", "parts"),
        ("parts", "parts/"),
        ("parts", "clinic/..//parts/../parts"),
    ],
)
def test_a_folder_and_a_file_in_it(first: str, then: str) -> None:
    add("visits", first)
    check_alias(then)


@pytest.mark.usefixtures("files")
def test_a_folder_that_links_into_another() -> None:
    add("visits", "parts")
    Path("other").mkdir()
    Path("other/c.parquet").symlink_to(Path("parts/a.parquet").resolve())
    check_alias("other")


@pytest.mark.usefixtures("files")
def test_other_rows_are_other_people() -> None:
    add("visits", "visits.csv")
    add("a", "parts/a.parquet")
    add("b", "parts/b.parquet")
    assert len(balances(VAULT)) == 3


@pytest.mark.usefixtures("files")
def test_a_replaced_file_keeps_its_account_and_its_copies_are_noticed() -> None:
    add("visits", "visits.csv")
    arrow_csv.write_csv(rows(5000), "visits.csv")
    shutil.copy("visits.csv", "copy.csv")
    check_alias("copy.csv")
    assert refusal(add, "old", "visits.parquet") == "dataset_attached"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("moved", [False, True])
def test_a_removed_entry_leaves_its_binding(moved: bool) -> None:
    empty = (VAULT / "vault.toml").read_bytes()
    add("visits", "parts")
    (VAULT / "vault.toml").write_bytes(empty)
    if moved:
        Path("parts").rename("moved")
        assert refusal(add, "again", "moved") == "dataset_attached"
    else:
        parquet.write_table(rows(9000), "parts/c.parquet")
        assert refusal(add, "again", "parts/c.parquet") == "dataset_attached"
        assert refusal(add, "again", "parts") == "dataset_attached"
        assert refusal(add_publicly, "again", "parts") == "dataset_attached"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("again", ["visits.csv", "visits.parquet"])
def test_what_is_public_gets_no_budget(again: str) -> None:
    add_publicly("visits", "visits.csv")
    assert refusal(add, "again", again) == "dataset_attached"
    add_publicly("twice", again)
    add("others", "parts")


@pytest.mark.usefixtures("files")
def test_empty_tables_are_nobody_s_copy() -> None:
    for name in ("one", "two"):
        arrow_csv.write_csv(rows().slice(0, 0), f"{name}.csv")
        add(name, f"{name}.csv")
    assert set(load(VAULT).datasets) == {"one", "two"}


@pytest.mark.usefixtures("files")
def test_a_copy_with_other_columns_beside_is_noticed() -> None:
    parquet.write_table(rows().append_column("extra", rows()["who"]), "wide.parquet")
    add("visits", "visits.csv")
    check_alias("wide.parquet")


@pytest.mark.usefixtures("files")
def test_fingerprints_need_their_key_and_tell_nobody_anything() -> None:
    add("visits", "visits.csv")
    key = VAULT / "fingerprint.key"
    assert key.stat().st_mode & 0o077 == 0
    secret, identity = key.read_bytes(), recorded()
    key.unlink()
    assert refusal(add, "b", "parts") == "secret_unusable"
    key.write_bytes(secret)
    assert refusal(add, "b", "parts") == "secret_exposed"
    shutil.rmtree(VAULT)
    Path("clinic.head").unlink()
    create(VAULT)
    add("visits", "visits.csv")
    assert not set(recorded()) & set(identity)


def recorded() -> list[str]:
    held = load(VAULT).datasets
    return [one for each in held.values() for one in each.identity if one.startswith("contents ")]


@pytest.mark.usefixtures("files")
def test_a_vault_of_an_older_version_learns_what_its_sources_are() -> None:
    with (VAULT / "vault.toml").open("a") as file:
        file.write(
            '[populations.visits]\nepsilon = "1"\n[datasets.visits]\nsource = "../visits.csv"\n'
            'schema = "../t.toml"\nunit = "row"\npopulation = "visits"\n'
        )
    open_vault(VAULT).close()
    check_alias(shutil.copy("visits.csv", "copy.csv"))
    assert recorded()


@pytest.mark.usefixtures("files")
def test_an_older_vault_with_two_budgets_for_one_file_still_works() -> None:
    add("visits", "visits.csv")
    os.link("visits.csv", "link.csv")
    text = (VAULT / "vault.toml").read_text()
    start, end = text.index("identity = ["), text.index("]\n", text.index("identity = [")) + 2
    text = text[:start] + text[end:]
    text += (
        text[text.index("[datasets.visits]") :]
        .replace("visits", "link")
        .replace("../link.toml", "../t.toml")
    )
    text += '[populations.link]\nepsilon = "1"\n'
    (VAULT / "vault.toml").write_text(text)
    add("parts", "parts")
    with open_vault(VAULT) as vault:
        assert vault.query("SELECT COUNT(*) AS n FROM link", epsilon="0.1").charged


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("again", ["visits.parquet", "visits.csv", "parts", "new.csv"])
def test_a_lost_key_is_missed_when_only_the_ledger_knows_of_fingerprints(again: str) -> None:
    empty = (VAULT / "vault.toml").read_bytes()
    add("visits", "visits.csv")
    (VAULT / "vault.toml").write_bytes(empty)
    key = VAULT / "fingerprint.key"
    secret = key.read_bytes()
    key.unlink()
    arrow_csv.write_csv(rows(9000), "new.csv")
    assert refusal(add, "again", again) == "secret_unusable"
    assert refusal(add_publicly, "again", again) == "secret_unusable"
    key.touch(mode=0o600)
    key.write_bytes(secret)
    assert refusal(add, "again", "visits.parquet") == "dataset_attached"


def _grow() -> None:
    with Path("visits.csv").open("a") as file:
        file.write('999999,"n1",1.0,2000-01-01,true\n')


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("replaced", [False, True])
def test_a_file_that_grew_and_was_moved_is_known(replaced: bool) -> None:
    add("visits", "visits.csv")
    _grow()
    Path("visits.csv").rename("moved.csv")
    if replaced:
        arrow_csv.write_csv(rows(9000), "visits.csv")
    check_alias("moved.csv")


@pytest.mark.usefixtures("files")
def test_a_member_that_grew_and_was_moved_out_of_its_folder_is_known() -> None:
    add("visits", "parts")
    Path("parts/a.parquet").write_bytes(Path("visits.parquet").read_bytes())
    Path("parts/a.parquet").rename("moved.parquet")
    check_alias("moved.parquet")


@pytest.mark.usefixtures("files")
def test_nothing_new_is_taken_while_a_private_source_cannot_be_looked_at() -> None:
    empty = (VAULT / "vault.toml").read_text()
    add("visits", "visits.csv")
    _grow()
    shutil.copy("visits.csv", "copy.csv")
    Path("visits.csv").rename("away")
    for source in ("copy.csv", "parts"):
        assert refusal(add, "again", source) == "dataset_attached"
        assert refusal(add, "again", source, population="others") == "dataset_attached"
        assert refusal(add_publicly, "again", source) == "dataset_attached"
    add("again", "copy.csv", population="visits", epsilon=None)
    Path("away").rename("visits.csv")
    add("parts", "parts")
    Path("visits.csv").unlink()
    (VAULT / "vault.toml").write_text(empty)
    arrow_csv.write_csv(rows(9000), "others.csv")
    add("others", "others.csv")
    assert {one["account"] for one in balances(VAULT)} == {"visits", "parts", "others"}


@pytest.mark.usefixtures("files")
def test_a_public_source_that_is_gone_keeps_nobody_out() -> None:
    add_publicly("visits", "visits.csv")
    Path("visits.csv").unlink()
    told: list[str] = []
    add("parts", "parts", warn=told.append)
    assert "source_missing" in told[0]


@pytest.mark.usefixtures("files")
def test_a_replaced_file_keeps_nobody_out() -> None:
    add("visits", "visits.csv")
    arrow_csv.write_csv(rows(5000), "new")
    Path("new").replace("visits.csv")
    add("parts", "parts")
    _grow()
    Path("visits.csv").rename("moved.csv")
    assert refusal(add, "again", "moved.csv") == "dataset_attached"


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("first", ["parts", "copies"])
def test_a_copy_of_one_file_of_a_folder_is_known(beside: bool, first: str) -> None:
    Path("copies").mkdir()
    shutil.copy("parts/a.parquet", "copies/1.parquet")
    if beside:
        parquet.write_table(rows(9000), "copies/2.parquet")
    add("visits", first)
    check_alias("copies" if first == "parts" else "parts")


@pytest.mark.usefixtures("files")
def test_a_source_that_is_gone_is_known_as_it_was() -> None:
    add("visits", "visits.csv")
    Path("visits.csv").unlink()
    told: list[str] = []
    assert refusal(add, "again", "visits.parquet", warn=told.append) == "dataset_attached"
    assert "visits" in told[0]
    assert "source_missing" in told[0]


TURNS: dict[str, tuple[str, Callable[[str, str], None], str]] = {
    "hard link in a folder": ("mine", os.link, "mine/b.parquet"),
    "symlink in a folder": ("mine", os.symlink, "mine/b.parquet"),
    "link of a new file": ("mine", lambda _, name: os.link(_grown(), name), "mine/b.parquet"),
    "symlink to a file": ("mine/a.parquet", os.symlink, "mine/a.parquet"),
    "file moved away": ("mine/a.parquet", os.rename, "mine/a.parquet"),
}


def _grown() -> str:
    parquet.write_table(rows(2000), "theirs/new.parquet")
    return str(Path("theirs/new.parquet").resolve())


@pytest.mark.parametrize(
    ("way", "public"), [*((way, False) for way in TURNS), ("symlink to a file", True)]
)
def test_a_source_that_became_anothers_is_refused_for_nothing(way: str, public: bool) -> None:
    source, turn, place = TURNS[way]
    for number, folder in enumerate(("mine", "theirs", "own")):
        Path(folder).mkdir()
        parquet.write_table(rows(1000 * number), f"{folder}/a.parquet")
    add("theirs", "theirs" if "new" in way else "theirs/a.parquet")
    add("own", "own")
    (add_publicly if public else add)("mine", source)
    asked = "own JOIN mine ON own.who = mine.who" if public else "mine"
    column = "own.cost" if public else "cost"
    with open_vault(VAULT) as vault:
        Path(place).unlink(missing_ok=True)
        turn(str(Path("theirs/a.parquet").resolve()), place)
        before = vault.accounts()
        question = f"SELECT COUNT(*) AS n FROM {asked} WHERE {column} < 7"
        assert code_of(vault.query, question, epsilon="0.01") == "source_unready"
        assert vault.accounts() == before
        if "new" not in way and "away" not in way:  # else nobody can tell whose it is
            vault.query("SELECT COUNT(*) AS n FROM theirs", epsilon="0.01")
        Path(place).unlink()
        parquet.write_table(rows(4000), place)
        vault.query("SELECT COUNT(*) AS n FROM own", epsilon="0.01")
