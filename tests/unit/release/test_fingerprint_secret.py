"""The holder's secret is drawn once, kept private, and never replaced silently."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import OutputError, SourceError
from sfumato.release.fingerprint import holder_secret

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "sfumato" / "secret"


def test_it_is_drawn_once_and_only_its_owner_can_read_it(place: Path) -> None:
    first = holder_secret()
    assert len(first) == 32
    assert holder_secret() == first == place.read_bytes()
    assert place.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in place.parent.iterdir()] == ["secret"]


def test_many_who_come_first_get_the_same(place: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: holder_secret(), range(32)))
    assert found == {place.read_bytes()}


def test_without_a_configured_place_it_is_in_the_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_CONFIG_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert holder_secret() == (tmp_path / ".config" / "sfumato" / "secret").read_bytes()


def test_a_secret_that_others_may_read_is_refused(place: Path) -> None:
    holder_secret()
    place.chmod(0o644)
    with pytest.raises(SourceError) as refusal:
        holder_secret()
    assert refusal.value.code == "secret_exposed"


def test_a_damaged_secret_is_refused_and_left_alone(place: Path) -> None:
    holder_secret()
    place.write_bytes(b"short")
    with pytest.raises(SourceError) as refusal:
        holder_secret()
    assert refusal.value.code == "secret_unusable"
    assert place.read_bytes() == b"short"


def test_what_cannot_be_read_or_written_is_said(place: Path) -> None:
    place.mkdir(parents=True)
    with pytest.raises(SourceError) as unreadable:
        holder_secret()
    assert unreadable.value.code == "secret_unusable"
    place.rmdir()
    place.parent.rmdir()
    place.parent.write_text("in the way")
    with pytest.raises(OutputError) as unwritable:
        holder_secret()
    assert unwritable.value.code == "secret_unusable"
