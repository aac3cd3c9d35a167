"""vault.toml: what it says, and what it must not say, with the line."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from sfumato.data.schema.unit import Entity, Neighbours, Rows
from sfumato.errors import CallerError, ParameterError
from sfumato.privacy.accounting.losses import Approx, Pure
from sfumato.vault.config import PrivateSet, PublicSet, load

if TYPE_CHECKING:
    from pathlib import Path

WHOLE = """\
format = 1
snapshot = 3
tick_milliseconds = 100
deadline_seconds = 60
[ledger]
database = "ledger.sqlite"
head = "../clinic.head"
[populations.patients]
epsilon = 0.3
delta = 1e-6
[populations.staff]
epsilon = "1/3"
[datasets.visits]
source = "../visits.csv"
schema = "visits.toml"
unit = { column = "patient", max_rows = 3, relation = "replace-one" }
population = "patients"
[datasets.town]
source = "postgresql://host/db#town"
schema = "town.toml"
unit = "row"
population = "staff"
[datasets.regions]
public = true
source = "regions.csv"
schema = "regions.toml"
keys = [{ columns = ["zip"], rows = 1 }]
[principals.alice.budgets.patients]
epsilon = 0.1
"""


def write(folder: Path, text: str) -> Path:
    (folder / "vault.toml").write_text(text)
    return folder


def test_the_owner_may_raise_the_largest_epsilon(tmp_path: Path) -> None:
    assert load(write(tmp_path, WHOLE)).max_epsilon == 10
    above = WHOLE.replace("epsilon = 0.3", "epsilon = 51")
    with pytest.raises(CallerError, match=r"max_epsilon in vault\.toml"):
        load(write(tmp_path, above))
    raised = load(write(tmp_path, above.replace("snapshot", "max_epsilon = 60\nsnapshot")))
    assert raised.max_epsilon == 60
    assert raised.budgets["patients"].loss().epsilon == 51
    for wrong in ("0", '"much"'):
        with pytest.raises(CallerError, match="max_epsilon"):
            load(write(tmp_path, f"max_epsilon = {wrong}\n{WHOLE}"))


def test_the_owner_chooses_among_sandboxes_that_there_are(tmp_path: Path) -> None:
    assert load(write(tmp_path, WHOLE)).sandbox is None
    assert load(write(tmp_path, f'sandbox = "landlock"\n{WHOLE}')).sandbox == "landlock"
    for wrong in ('"none"', "false", '["landlock"]'):
        with pytest.raises(CallerError, match=r"vault\.toml.*sandbox"):
            load(write(tmp_path, f"sandbox = {wrong}\n{WHOLE}"))


def test_one_block_at_a_time_unless_the_owner_says_otherwise(tmp_path: Path) -> None:
    assert load(write(tmp_path, WHOLE)).sandbox_workers == 1
    assert load(write(tmp_path, f"sandbox_workers = 3\n{WHOLE}")).sandbox_workers == 3
    for wrong in ("-1", "true", '"2"', "1.5"):
        with pytest.raises(CallerError, match=r"vault\.toml.*sandbox_workers"):
            load(write(tmp_path, f"sandbox_workers = {wrong}\n{WHOLE}"))


def test_everything_is_read_exactly(tmp_path: Path) -> None:
    config = load(write(tmp_path, WHOLE))
    assert (config.snapshot, config.tick_seconds, config.deadline_seconds) == (3, 0.1, 60)
    assert config.head == tmp_path / "../clinic.head"
    assert config.datasets == {
        "visits": PrivateSet(
            "../visits.csv",
            "visits.toml",
            Entity("patient", 3, relation=Neighbours.REPLACE_ONE),
            "patients",
        ),
        "town": PrivateSet("postgresql://host/db#town", "town.toml", Rows(), "staff"),
        "regions": PublicSet("regions.csv", "regions.toml", {("zip",): 1}),
    }
    loss = config.budgets["patients"].loss()
    assert isinstance(loss, Approx)
    assert (loss.epsilon, loss.delta) == (Fraction(3, 10), Fraction(1, 10**6))
    assert config.budgets["staff"].loss() == Pure(epsilon=Fraction(1, 3))
    assert config.principals["alice"]["patients"].loss() == Pure(epsilon=Fraction(1, 10))


def test_a_folder_that_is_no_vault(tmp_path: Path) -> None:
    with pytest.raises(ParameterError) as caught:
        load(tmp_path)
    assert caught.value.code == "vault_missing"
    assert "sfumato init" in caught.value.message


@pytest.mark.parametrize(
    ("old", "new", "code", "line"),
    [
        ("format = 1", "format = 2", "vault_config_invalid", 1),
        ("format = 1", "", "schema_malformed", 1),
        ("snapshot = 3", "snapshot = -1", "vault_config_invalid", 2),
        ("snapshot = 3", "snapshot = true", "schema_malformed", 2),
        ("snapshot = 3", "snapshots = 3", "schema_malformed", 2),
        ("epsilon = 0.3", "epsilon = 0", "parameter_out_of_range", 8),
        ("epsilon = 0.3", "epsilon = nan", "parameter_type_wrong", 8),
        ("epsilon = 0.3", "epsilon = 51", "parameter_out_of_range", 8),
        ("epsilon = 0.3", "", "parameter_type_wrong", 8),
        ("delta = 1e-6", "delta = 1", "parameter_out_of_range", 8),
        ("[populations.staff]", "[populations.Patients]", "name_invalid", 8),
        ("[datasets.town]", '[datasets."t own"]', "name_invalid", 18),
        ('unit = "row"', "", "schema_malformed", 18),
        ('unit = "row"', 'unit = "rows"', "schema_malformed", 21),
        ("max_rows = 3", "max_rows = 0", "parameter_out_of_range", 16),
        ("max_rows = 3", "max_row = 3", "schema_malformed", 16),
        ("replace-one", "replace-two", "schema_malformed", 16),
        ('population = "staff"', 'population = "stuff"', "vault_config_invalid", 22),
        ('population = "staff"', "", "schema_malformed", 18),
        ("rows = 1 }", "rows = 0 }", "vault_config_invalid", 27),
        ('source = "regions.csv"', "source = 1", "schema_malformed", 25),
        ("epsilon = 0.1", "epsilon = 0.5", "budget_out_of_range", 28),
        ("epsilon = 0.1", "epsilon = 0.1\ndelta = 1e-5", "budget_out_of_range", 28),
        ("principals.alice", "principals.owner", "vault_config_invalid", 28),
        ("budgets.patients]", "budgets.nobody]", "vault_config_invalid", 28),
        ("principals.alice", 'principals."аdmin"', "name_invalid", 28),  # a Cyrillic а
    ],
)
def test_what_makes_no_sense_is_refused_with_its_line(
    old: str, new: str, code: str, line: int, tmp_path: Path
) -> None:
    assert old in WHOLE
    with pytest.raises(CallerError) as caught:
        load(write(tmp_path, WHOLE.replace(old, new, 1)))
    assert caught.value.code == code
    assert f"vault.toml, line {line}: " in caught.value.message
    assert "\n" not in caught.value.message


def test_what_is_no_toml(tmp_path: Path) -> None:
    with pytest.raises(CallerError) as caught:
        load(write(tmp_path, WHOLE + "x = [1"))
    assert caught.value.code == "vault_config_invalid"


@pytest.mark.parametrize(
    "address",
    [
        "me:secret@host/db",
        "me:sec/ret@host/db",
        ":secret@host/db",
        "host/db?password=secret",
        "host/db?user=me&password=secret",
        "host/db?user=me&PASSWORD=secret",
        "host/db?sslkey=k&sslpassword=secret",
        "host/db?p%61ssword=secret",
        "host/db?user=me%26password=secret",
        "host/db?p\\u0061ssword=secret",
        "host/db dbname=db password = 'secret'",
    ],
)
def test_a_password_that_others_may_read_is_refused(tmp_path: Path, address: str) -> None:
    write(tmp_path, WHOLE.replace("host/db", address))
    (tmp_path / "vault.toml").chmod(0o644)
    with pytest.raises(ParameterError) as caught:
        load(tmp_path)
    assert caught.value.code == "secret_exposed"
    assert "secret" not in caught.value.message
    (tmp_path / "vault.toml").chmod(0o600)
    assert load(tmp_path).snapshot == 3
