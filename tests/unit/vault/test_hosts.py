"""A host joins where another stands: once, and only a ledger that holds what the other has seen.

The vault's folder is copied to another host whole, here with the ledger in it.
"""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.errors import RolledBackError
from sfumato.vault.creation import join, positions

if TYPE_CHECKING:
    from pathlib import Path

QUESTION = "SELECT COUNT(*) AS n FROM asked"


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """The vault of the host that was first."""
    return made(tmp_path / "first", purposes=None)


def made(home: Path, purposes: list[str] | None) -> Path:
    home.mkdir()
    (home / "asked.csv").write_text("who\n1\n2\n")
    who = sf.Column("who", sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False)
    with sf.init(home / "clinic") as vault:
        asked: dict[str, Any] = {"unit": "who", "max_rows": 1, "epsilon": 9, "purposes": purposes}
        vault.add("asked", home / "asked.csv", sf.Schema("asked", (who,)), **asked)
    return home / "clinic"


def another(first: Path, name: str = "second") -> Path:
    """The same on a host that has seen nothing of it."""
    home = first.parents[1] / name
    shutil.copytree(first.parent, home, ignore=shutil.ignore_patterns("*.head*"))
    return home / "clinic"


def told(vault: Path, **changed: str) -> Path:
    """What an operator carries from a host to another."""
    file = vault.parents[1] / "head.json"
    file.write_text(json.dumps({**positions(vault), **changed}))
    return file


def spent(vault: Path) -> None:
    with sf.open(vault) as opened:
        opened.query(QUESTION, epsilon=1)


def test_a_host_answers_once_it_has_joined(first: Path) -> None:
    second = another(first)
    with pytest.raises(RolledBackError):
        sf.open(second)
    assert join(second, told(first)) == positions(first)
    spent(second)


def test_what_was_told_earlier_is_caught_up_with(first: Path) -> None:
    early = told(first)
    spent(first)
    assert join(another(first), early) == positions(first)


def test_a_host_joins_once(first: Path) -> None:
    second = another(first)
    join(second, told(first))
    join(second, told(first))  # the same again is no other beginning
    spent(first)
    before = second.with_name("clinic.head").read_bytes()
    assert code_of(lambda: join(second, told(first))) == "ledger_taken"
    assert second.with_name("clinic.head").read_bytes() == before


def test_the_head_of_another_ledger_is_refused_and_the_right_one_still_taken(first: Path) -> None:
    second, other = another(first), made(first.parents[1] / "other", purposes=None)
    assert code_of(lambda: join(second, told(other))) == "head_not_held"
    assert not second.with_name("clinic.head").exists()
    join(second, told(first))
    spent(second)


def test_a_database_older_than_what_was_told_is_refused(first: Path) -> None:
    old = another(first)
    spent(first)
    assert code_of(lambda: join(old, told(first))) == "head_not_held"


def test_the_registry_of_consent_is_joined_too(tmp_path: Path) -> None:
    first = made(tmp_path / "first", purposes=["care"])
    with sf.open(first) as vault:
        vault.consent().give(1, "care")
    assert positions(first).keys() == {"ledger", "consent"}
    second, third = another(first), another(first, "third")
    join(second, told(first))
    with sf.open(second) as vault:
        assert vault.consent().show()["purposes"] == {"care": {"yes": 1, "no": 0}}
        vault.query(QUESTION, epsilon=1, purpose="care")
    assert code_of(lambda: join(third, told(first, consent=f"1:{'0' * 64}"))) == "head_not_held"
    assert not list(third.parent.glob("*.head*"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"ledger": 3}',
        '{"ledger": "3:ab"}',
        '{"ledger": "0:x", "x": 1}',
        "{" * 9999,
    ],
)
def test_what_tells_no_position_is_refused(first: Path, tmp_path: Path, text: str) -> None:
    (tmp_path / "head.json").write_text(text)
    assert code_of(lambda: join(first, tmp_path / "head.json")) == "head_unreadable"
