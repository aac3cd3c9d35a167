"""A vault on disk from before modules moved to floors opens, tells what it told, and goes on.

`tests/fixtures/stored_vault/make.py` made it.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.stored_vault.make import (
    JOB,
    PUBLICATIONS,
    QUESTIONS,
    SYNTHESIS,
    plain,
    read,
    rows_digest,
)

import sfumato as sf

if TYPE_CHECKING:
    from collections.abc import Iterator

ARCHIVE = Path(__file__).parents[2] / "fixtures" / "stored_vault" / "vault.tar.xz"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with tarfile.open(ARCHIVE) as archive:
        # Python before 3.11.4, which Debian 12 has, knows no filter; the archive is our own.
        known: dict[str, Any] = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(tmp_path, **known)
    return tmp_path


@pytest.fixture
def told(folder: Path) -> dict[str, Any]:
    """What the vault told when it was made."""
    record: dict[str, Any] = json.loads((folder / "told.json").read_text())
    return record


@pytest.fixture
def vault(folder: Path) -> Iterator[sf.Vault]:
    with sf.open(folder / "clinic") as opened:
        yield opened


def as_json(value: Any) -> Any:
    return json.loads(json.dumps(value, default=str))


def figures(accounts: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What accounts hold; sentences and further purchases are derived from it."""
    return [
        {
            name: value
            for name, value in as_json(account).items()
            if name not in {"balance", "purchases"}
        }
        for account in accounts
    ]


def test_its_ledger_is_whole_and_its_balances_are_as_they_were(
    vault: sf.Vault, told: dict[str, Any]
) -> None:
    # Since it was unpacked elsewhere, each private source is bound once more, by its new path.
    assert vault.verify()["entries"] == told["entries"] + 2
    assert figures(vault.accounts()) == figures(told["accounts"])


def test_what_was_paid_for_is_answered_from_store_without_a_charge(
    vault: sf.Vault, told: dict[str, Any]
) -> None:
    entries = vault.verify()["entries"]
    again = {name: vault.query(**asked) for name, asked in QUESTIONS.items()}
    again |= {name: vault.publish(**asked) for name, asked in PUBLICATIONS.items()}
    again["people"] = vault.synthesize("people", **SYNTHESIS)
    assert not any(answer.charged for answer in again.values())
    assert as_json({name: plain(answer) for name, answer in again.items()}) == told["answers"]
    assert figures(vault.accounts()) == figures(told["accounts"])
    assert vault.verify()["entries"] == entries


def test_its_principals_tokens_programs_and_consents_are_as_they_were(
    vault: sf.Vault, told: dict[str, Any]
) -> None:
    assert as_json([person.to_json() for person in vault.people.list()]) == told["principals"]
    assert as_json([token.to_json() for token in vault.tokens.list()]) == told["tokens"]
    assert vault.token_registry.holder(told["secret"]).principal == "eve"
    assert as_json([approval.to_json() for approval in vault.programs.list()]) == told["programs"]
    consents = {number: vault.consent("visits").show(number) for number in told["consent"]}
    assert as_json(consents) == told["consent"]
    [asked] = vault.history.list("eve")
    assert plain(vault.history.answer("eve", asked))["rows"] == told["answers"]["coasts"]["rows"]


def test_its_jobs_and_releases_load_and_a_waiting_job_is_done(
    vault: sf.Vault, told: dict[str, Any]
) -> None:
    assert as_json([job.to_json() for job in vault.jobs.list()]) == told["jobs"]
    releases = {
        release.id: {**release.to_json(), "rows": rows_digest(release.release)}
        for release in vault.releases.list()
    }
    assert as_json(releases) == told["releases"]
    for release in vault.releases.list():
        assert all(release.file(name).content for name in release.files)
    assert len(vault.releases.list(principal="press")) == 1
    assert not vault.private("people", principal="bob").publish(**JOB).charged
    assert vault.jobs.work() == 1
    assert {job.state.value for job in vault.jobs.list()} == {"done"}


def test_its_feeds_go_on_where_they_were(vault: sf.Vault, told: dict[str, Any]) -> None:
    for name, before in told["feeds"].items():
        assert as_json(read(vault, name)) == before
    assert vault.feed_registry.work() == 6, (
        "two periods of each of three feeds are over and not told"
    )
    for name, before in told["feeds"].items():
        after = as_json(read(vault, name))
        assert after["items"][:2] == before["items"]
        assert after["state"] == {**before["state"], "answered": 4}
    assert len(vault.feed_registry.read("monthly", principal="press")) == 4
