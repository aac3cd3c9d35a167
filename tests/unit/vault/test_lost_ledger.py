"""Whatever is lost of a ledger, acknowledging the loss gives nobody a budget a second time."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import pytest
from tests.fixtures.ledgers import balances, code_of, verified_ledger
from tests.fixtures.slices import few_fast

import sfumato as sf
from sfumato.errors import BudgetError, LedgerError, SfumatoError
from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger.sql.sqlite import create_sqlite
from sfumato.vault import accounts
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration

VAULT = Path("vault")
PRINCIPAL = '[principals.alice.budgets.visits]\nepsilon = "1"\n'


@dataclass
class Story:
    """A vault that was backed up at several times, and what was ever granted about its people."""

    granted: Fraction = Fraction(0)
    backups: dict[str, Path] = field(default_factory=dict)
    asked: int = 0

    def back_up(self, when: str) -> None:
        """Keep the vault's folder and its head as they are."""
        kept = Path(f"backup-{when}")
        shutil.copytree(VAULT, kept)
        shutil.copy("vault.head", kept / "head")
        self.backups[when] = kept

    def spend(self, epsilon: str, principal: str = "owner") -> None:
        """Ask a new question for so much of the population's budget."""
        self.asked += 1
        with sf.open(VAULT) as vault:
            query = f"SELECT COUNT(*) AS n FROM visits WHERE cost > {self.asked}"
            vault.query(query, epsilon=epsilon, principal=principal)
        self.granted += Fraction(epsilon)

    def spend_all(self) -> None:
        """Take whatever anybody can still get, in small pieces."""
        for principal in ("owner", "alice"):
            for epsilon in ("1/2", "1/10", "1/100"):
                try:
                    while True:
                        self.spend(epsilon, principal)
                except SfumatoError:
                    continue


@pytest.fixture
def story(files: Path) -> Story:
    """Epsilon 1, then 2, of which 1.5 was spent by the owner and by alice; backed up all along."""
    assert files == Path.cwd()
    told = Story()
    create(VAULT)
    told.back_up("init")
    add()
    told.back_up("add")
    told.spend("1/4")
    configuration = VAULT / "vault.toml"
    configuration.write_text(configuration.read_text() + PRINCIPAL)
    told.spend("1/4", "alice")
    told.back_up("alice")
    told.spend("1/2", "alice")
    accounts.set_limit(VAULT, "visits", epsilon="2", delta=0, operator="root")
    told.spend("1/2")
    return told


def add() -> None:
    registration = Registration(
        name="visits", source="visits.csv", schema=Path("visits.toml"), epsilon=1
    )
    registration.add_to(VAULT)


def put_back(backup: Path, *names: str) -> None:
    for name in ("ledger.sqlite-wal", "ledger.sqlite-shm"):
        (VAULT / name).unlink(missing_ok=True)
    for name in names:
        shutil.copy(backup / name, "vault.head" if name == "head" else VAULT / name)


LOSSES: dict[str, tuple[tuple[str, ...], bool]] = {
    "nothing": ((), True),
    "database": (("ledger.sqlite",), False),
    "database and head": (("ledger.sqlite",), True),
    "folder": (("ledger.sqlite", "vault.toml"), False),
}
"""What is put back from a backup, and whether the head is deleted."""


@pytest.mark.parametrize("when", few_fast(["add", "init", "alice"], 1))
@pytest.mark.parametrize("loss", LOSSES)
def test_L6_no_budget_is_granted_twice(story: Story, loss: str, when: str) -> None:
    names, headless = LOSSES[loss]
    put_back(story.backups[when], *names)
    if headless:
        Path("vault.head").unlink()
    before = story.granted
    story.spend_all()
    assert story.granted == before  # nothing is answered until the loss is acknowledged
    accounts.acknowledge(VAULT, operator="root")
    if (loss, when) == ("folder", "init"):
        add()  # the vault knows of no data set any more
    story.spend_all()
    assert story.granted == before
    assert all(one["remaining"]["epsilon"] == 0 for one in balances(VAULT))
    assert {"visits", "visits/alice"} >= {one["account"] for one in balances(VAULT)}
    verified_ledger(VAULT)


@pytest.mark.parametrize("also", ["", "vault.head"])
@pytest.mark.parametrize("emptied", [False, True])
def test_L6_a_deleted_database_is_never_created_by_opening(
    story: Story, also: str, emptied: bool
) -> None:
    database = VAULT / "ledger.sqlite"
    database.unlink()
    if emptied:
        database.touch()
    if also:
        Path(also).unlink()
    for attempt in (
        lambda: sf.open(VAULT),
        lambda: accounts.acknowledge(VAULT, operator="root"),
        lambda: balances(VAULT),
        lambda: verified_ledger(VAULT),
        lambda: accounts.set_limit(VAULT, "visits", epsilon="9", delta=0, operator="root"),
        add_another,
    ):
        assert code_of(attempt) == "ledger_missing"
    assert not database.exists() or database.read_bytes() == b""
    before = story.granted
    put_back(story.backups["init"], "ledger.sqlite")
    accounts.acknowledge(VAULT, operator="root")
    story.spend_all()
    assert story.granted == before


def add_another() -> None:
    registration = Registration(
        name="more", source="visits.csv", schema=Path("visits.toml"), population="visits"
    )
    registration.add_to(VAULT)


def test_L6_a_limit_raised_in_lost_entries_is_burnt_too(story: Story) -> None:
    """The configuration still says 2 where the backup says 1: 2 is what may have been spent."""
    put_back(story.backups["alice"], "ledger.sqlite")
    accounts.acknowledge(VAULT, operator="root")
    with pytest.raises(BudgetError):
        story.spend("1/100")
    with pytest.raises(SfumatoError) as below:
        accounts.set_limit(VAULT, "visits", epsilon="2", delta=0, operator="root")
    assert below.value.code == "budget_out_of_range"
    # A quarter and a quarter stand in the backup; two were burnt; a half is new.
    accounts.set_limit(VAULT, "visits", epsilon="3", delta=0, operator="root")
    story.spend("1/2")
    with pytest.raises(BudgetError):
        story.spend("1/100")
    verified_ledger(VAULT)


def test_L6_new_accounts_of_a_ledger_that_lost_entries_are_given_budget_by_an_operator(
    story: Story,
) -> None:
    put_back(story.backups["init"], "ledger.sqlite", "vault.toml")
    accounts.acknowledge(VAULT, operator="root")
    add()
    with pytest.raises(BudgetError):
        story.spend("1/100")
    accounts.set_limit(VAULT, "visits", epsilon="2", delta=0, operator="root")
    story.spend("1")
    with pytest.raises(BudgetError):
        story.spend("1/100")


def test_a_database_that_is_taken_is_not_begun_again(files: Path) -> None:
    database, head = files / "a.sqlite", files / "heads" / "head"
    head.parent.mkdir()
    create_sqlite(database, head=head).close()
    create_sqlite(database, head=head).close()  # nothing was written yet
    ledger = create_sqlite(database, head=head)
    ledger.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    ledger.close()
    for other in (head, files / "heads" / "other"):
        with pytest.raises(LedgerError) as taken:
            create_sqlite(database, head=other)
        assert taken.value.code == "ledger_exists"
