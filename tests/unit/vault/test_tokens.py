"""Tokens: shown once, kept as a hash, refused in one way."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.errors import PolicyError
from sfumato.vault.creation import create
from sfumato.vault.registration import Registration
from sfumato.vault.tokens import Holder
from sfumato.vault.vault import ledger_access

if TYPE_CHECKING:
    from collections.abc import Iterator

CLINIC = Path("clinic")
BY = {"operator": "ann"}


@pytest.fixture
def vault(files: Path) -> Iterator[sf.Vault]:
    create(CLINIC)
    visits = {"source": "visits.csv", "schema": Path("visits.toml"), "epsilon": "2"}
    Registration(name="visits", **visits).add_to(CLINIC)  # type: ignore[arg-type]
    assert files.exists()
    with sf.open(CLINIC) as opened:
        opened.people.add("alice", "external", epsilon=1, **BY)
        opened.people.add("shop", "public", **BY)
        yield opened


def refusal(vault: sf.Vault, text: str) -> str:
    """The whole refusal of a token, which is one for all."""
    with pytest.raises(PolicyError) as refused:
        vault.token_registry.holder(text)
    return f"{refused.value.code} {refused.value.message} {refused.value.detail}"


def test_a_token_tells_who_asks(vault: sf.Vault) -> None:
    text = vault.tokens.new("alice", **BY)
    assert re.fullmatch(r"sfu_[a-z2-9]{8}[A-Za-z0-9_-]{43}", text)
    scopes = frozenset({"query", "plan", "submit-code", "ledger:read"})
    assert vault.token_registry.holder(text) == Holder(
        "alice", scopes, text[4:12], vault.people.get("alice")
    )
    with sf.open(CLINIC) as other:
        assert other.token_registry.holder(text).principal == "alice"
    owners = vault.tokens.new("owner", **BY)
    assert "admin" in vault.token_registry.holder(owners).scopes
    narrow = vault.tokens.new("alice", scopes="plan", **BY)
    assert vault.token_registry.holder(narrow).scopes == {"plan"}
    assert vault.token_registry.holder(vault.tokens.new("shop", **BY)).scopes == {
        "query",  # for the releases that are opened to it
        "plan",
        "ledger:read",
    }


def test_R39_whatever_is_wrong_one_refusal_tells_it(vault: sf.Vault) -> None:
    tokens, people = vault.tokens, vault.people
    good = tokens.new("alice", **BY)
    expired = tokens.new("alice", expires="2020-01-01", **BY)
    revoked, lapsed = tokens.new("alice", **BY), tokens.new("shop", **BY)
    tokens.revoke(revoked[4:12], **BY)
    people.expire("shop", **BY)
    other = tokens.new("alice", **BY)
    told = {
        refusal(vault, text)
        for text in (
            "",
            "sfu_",
            "x" * 10_000_000,
            f"{good} ",
            f" {good}",
            f"{good}\n",
            good[:-1],
            good.replace("sfu_", "SFU_"),
            good[:12] + other[12:],
            good[:12] + "A" * 43,
            "sfu_" + "a" * 51,
            "sfu_aaaaaaa\ud800" + "a" * 43,
            expired,
            revoked,
            lapsed,
        )
    }
    assert len(told) == 1
    assert vault.token_registry.holder(good).principal == "alice"
    people.expire("alice", **BY)
    assert {refusal(vault, good)} == told


def test_a_token_ends_by_the_later_of_clock_and_ledger(vault: sf.Vault) -> None:
    text = vault.tokens.new("alice", expires="1d", **BY)
    vault.token_registry.holder(text)
    later = datetime.now(UTC) + timedelta(days=2)
    vault.ledger._clock = lambda: later
    refusal(vault, text)
    vault.ledger.record("note", "n", 1, **BY)
    vault.ledger._clock = lambda: later - timedelta(days=9)
    refusal(vault, text)


def test_nothing_keeps_the_token_itself(vault: sf.Vault) -> None:
    text = vault.tokens.new("alice", **BY)
    vault.token_registry.holder(text)
    secret = text[12:].encode()
    kept = [one for one in (*CLINIC.rglob("*"), CLINIC.with_name("clinic.head")) if one.is_file()]
    assert len(kept) > 3
    assert not any(secret in one.read_bytes() for one in kept)
    assert text[12:] not in repr(vault.tokens) + repr(vault.tokens.list())


def test_they_are_listed_with_their_last_hour(vault: sf.Vault) -> None:
    text = vault.tokens.new("alice", expires="2d", scopes=["query"], **BY)
    vault.tokens.new("shop", **BY)
    one, two = vault.tokens.list()
    assert (one.id, one.principal, one.scopes, one.used) == (text[4:12], "alice", ("query",), None)
    assert two.to_json()["expires"] is None
    entries = vault.verify()["entries"]
    vault.token_registry.holder(text)
    used = vault.tokens.list()[0].used
    assert used is not None
    assert (used.minute, used.second) == (0, 0)
    assert timedelta(0) <= datetime.now(UTC) - used <= timedelta(hours=1)
    assert vault.verify()["entries"] == entries  # apart from the chain
    assert used.isoformat() == vault.tokens.list()[0].to_json()["used"]


def test_a_mark_that_cannot_be_made_refuses_nobody(vault: sf.Vault) -> None:
    (CLINIC / "tokens").write_text("in the way")
    assert vault.token_registry.holder(vault.tokens.new("alice", **BY)).principal == "alice"


def test_what_cannot_be_made_or_revoked(vault: sf.Vault) -> None:
    new = vault.tokens.new
    assert code_of(new, "nobody", **BY) == "principal_unknown"
    assert code_of(new, "alice", scopes=["admin"], **BY) == "choice_unknown"
    assert code_of(new, "owner", scopes=["everything"], **BY) == "choice_unknown"
    assert code_of(new, "shop", scopes="submit-code", **BY) == "choice_unknown"
    assert code_of(new, "alice", scopes="", **BY) == "choice_unknown"
    assert code_of(new, "alice", expires="x", **BY) == "time_malformed"
    assert code_of(new, "alice", operator="") == "name_invalid"
    vault.people.expire("shop", **BY)
    assert code_of(new, "shop", **BY) == "principal_expired"
    assert code_of(vault.tokens.revoke, "zzzzzzzz", **BY) == "token_unknown"
    assert vault.tokens.list() == []


def test_a_whole_token_can_be_revoked_and_its_refusal_does_not_quote_it(vault: sf.Vault) -> None:
    text = vault.tokens.new("alice", **BY)
    with ledger_access(CLINIC) as access:
        access.token_registry.revoke(text, **BY)
        with pytest.raises(sf.SfumatoError) as refused:
            access.token_registry.revoke(text, **BY)
    assert text[12:] not in refused.value.message
    refusal(vault, text)


def test_a_lost_ledger_ends_all_tokens(vault: sf.Vault) -> None:
    """The lost entries may have revoked it."""
    text = vault.tokens.new("owner", **BY)
    vault.close()
    CLINIC.with_name("clinic.head").unlink()
    sf.Vault.acknowledge(CLINIC, operator="ann")
    with sf.open(CLINIC) as again:
        refusal(again, text)
        assert again.tokens.list() == []
        assert again.people.list() == []
