"""Addresses that are refused: no password is printed, and what they need is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from sfumato.cli.main import run
from sfumato.vault.creation import create


@pytest.fixture(autouse=True)
def _vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    create(Path("clinic"))


def test_no_refusal_prints_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    for address in ("sc://host/;token=canary#t", "postgresql://me:canary@host/db#t"):
        assert run(["add", "more", address, "--epsilon", "1", "--vault", "clinic", "--json"]) == 2
        output = capsys.readouterr()
        assert "canary" not in output.out + output.err
        assert "host" in output.err


@pytest.mark.parametrize(
    ("address", "needed"),
    [
        ("postgresql:/me:canary@host/db#t", "postgresql://"),
        ("Postgresql://me:canary@host/db#t", "postgresql:// at its very beginning, in small"),
        ("POSTGRESQL://me@host/db#t", "postgresql:// at its very beginning, in small"),
        (" postgresql://me:canary@host/db#t", "at its very beginning"),
        ("s3://me:canary@bucket/t.parquet", "Files of another machine are not read"),
        ("https://me:canary@host/t.csv", "Files of another machine are not read"),
    ],
)
def test_an_address_that_nothing_reads_is_told_what_it_needs(
    address: str, needed: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for options in (["--json"], []):
        assert run(["inspect", address, *options]) == 2
        output = capsys.readouterr()
        assert "canary" not in output.out + output.err
        assert needed in output.err
    assert run(["add", "more", address, "--epsilon", "1", "--vault", "clinic"]) == 2
    assert "canary" not in capsys.readouterr().err
