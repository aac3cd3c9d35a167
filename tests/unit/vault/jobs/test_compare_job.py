"""An owner sets releases beside each other: a job that releases nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.fixtures.ledgers import code_of

from sfumato.vault.release_attacks import FRAGMENT, PAGE, read_comparison

if TYPE_CHECKING:
    import sfumato as sf


def done(vault: sf.Vault, family: str, **asked: object) -> str:
    job = vault.jobs.submit(family, "visits", **asked)  # type: ignore[arg-type]
    vault.jobs.work()
    found = vault.jobs.get(job)
    assert found.error is None
    return found.id


def test_releases_are_compared_for_their_owner_and_nothing_is_released(vault: sf.Vault) -> None:
    made = done(vault, "publish", kind="histogram", columns=["city"], epsilon=1)
    twin = done(vault, "synthesize", method="independent", columns=["city"], epsilon=1)
    spent = vault.accounts()
    name = done(vault, "compare", releases=[made, twin])
    assert vault.accounts() == spent
    assert vault.jobs.get(name).release is None
    assert name not in {one.id for one in vault.releases.list()}
    folder = vault.config.folder
    page, part = (read_comparison(folder, name, one) for one in (PAGE, FRAGMENT))
    assert page is not None
    assert part is not None
    assert page.startswith("<!doctype html>")
    assert "<html" not in part
    assert "<style" not in part
    assert " style=" not in part
    for one in (page, part):
        assert made[:6] in one
        assert "counts with noise" in one
    assert (folder / "releases" / name / PAGE).stat().st_mode & 0o077 == 0


def test_what_cannot_be_compared_is_refused_when_it_is_submitted(vault: sf.Vault) -> None:
    made = done(vault, "publish", kind="histogram", columns=["city"], epsilon=1)
    submit = vault.jobs.submit
    assert code_of(submit, "compare", "visits") == "comparison_impossible"
    assert code_of(submit, "compare", "visits", releases=[made], k=3) == "option_unknown"
    assert code_of(submit, "compare", "visits", releases=["x"]) == "release_unknown"
    vault.add("more", "visits.csv", "visits.toml", population="visits")
    assert code_of(submit, "compare", "more", releases=[made]) == "comparison_impossible"
    theirs = code_of(submit, "compare", "visits", releases=[made], principal="ann")
    assert theirs == "permission_missing"
