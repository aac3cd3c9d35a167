"""What a password costs is tried here alone, with the costs that people have."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from argon2 import PasswordHasher

from sfumato.console import sign_in as passwords
from sfumato.console.sign_in import check_password, hash_password
from sfumato.errors import ParameterError
from sfumato.server.problem_json import RequestError
from sfumato.vault.console_store import Guesser
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.vault.vault import Vault

GOOD = "correct horse battery"
PEER = Guesser("peer 192.0.2.1", "192.0.2.1")


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    home: Path = tmp_path_factory.mktemp("passwords")
    with create_vault(home / "clinic") as opened:
        opened.people.add("ann", "permanent-staff", operator="Ann")
        yield opened


def test_a_password_is_kept_as_argon2id_and_hashed_anew_when_costs_grow(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    weak = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    assert vault.logins.accept(vault.logins.invite("ann"), weak.hash(GOOD)) == "ann"
    assert check_password(vault, "ann", GOOD, PEER)
    stored_hash = vault.logins.hash_of("ann")
    assert stored_hash is not None
    assert stored_hash.startswith("$argon2id$v=19$m=65536,t=3,p=4$")
    monkeypatch.setattr(passwords, "hasher", lambda: weak)
    assert not check_password(vault, "ann", GOOD + " ", PEER)


def test_a_name_that_nobody_has_takes_the_same_work(vault: Vault) -> None:
    check_password(vault, "warm", GOOD, PEER)
    spent = []
    for name in ("ann", "nobody"):
        begun = time.process_time()
        assert not check_password(vault, name, "wrong" * 4, PEER)
        spent.append(time.process_time() - begun)
    # Both compute one hash; without it a refusal takes a hundredth of that.
    assert 0.2 < spent[0] / spent[1] < 5


def test_five_tries_a_minute_and_who_was_right_begins_anew(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, quick = time.time() + 1000, PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)
    monkeypatch.setattr(vault.logins, "_clock", lambda: now)
    monkeypatch.setattr(passwords, "hasher", lambda: quick)
    vault.logins.change("ann", quick.hash(GOOD))
    for _ in range(4):
        assert not check_password(vault, "ann", "no", PEER)
    assert check_password(vault, "ann", GOOD, PEER)
    for _ in range(5):
        assert not check_password(vault, "ann", "no", PEER)
    with pytest.raises(RequestError) as refused:
        check_password(vault, "ann", GOOD, PEER)
    assert refused.value.code == "requests_too_frequent"
    now += 60
    assert check_password(vault, "ann", GOOD, PEER)


@pytest.mark.parametrize(
    ("password", "again", "code"),
    [
        ("x" * 11, "x" * 11, "password_invalid"),
        ("x" * 1001, "x" * 1001, "password_invalid"),
        ("x" * 12, "x" * 13, "password_invalid"),
    ],
)
def test_a_new_password_is_long_enough_and_typed_twice(
    password: str, again: str, code: str
) -> None:
    with pytest.raises(ParameterError) as refused:
        hash_password(password, again)
    assert refused.value.code == code
