"""What an operator is told of the sandboxes of a machine."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from sfumato.cli.local_commands import sandbox
from sfumato.methods.programs.sandbox import PROVIDERS, VARIABLE, Probe
from sfumato.methods.programs.sandbox.workers import ForkingChamber

if TYPE_CHECKING:
    import pytest


def test_what_was_found_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = Probe(passed=False, findings=("read_secret", "fork"))
    monkeypatch.setattr(ForkingChamber, "probe", lambda _: failed)
    sandbox(as_json=True)
    output = json.loads(capsys.readouterr().out)
    assert output["sandbox"] is None
    assert [provider["name"] for provider in output["tried"]] == list(PROVIDERS)
    assert output["tried"][0]["findings"] == ["read_secret", "fork"]
    sandbox()
    text = capsys.readouterr().out
    assert "bubblewrap  does not hold: read_secret; fork\n" in text
    assert text.endswith("Programs cannot run here: no sandbox holds.\n")


def test_a_choice_that_does_not_hold_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        ForkingChamber, "probe", lambda provider: Probe(passed=provider.name == "landlock")
    )
    monkeypatch.setenv(VARIABLE, "bubblewrap")
    sandbox()
    output = capsys.readouterr().out
    assert output.endswith("here: landlock holds, and SFUMATO_SANDBOX requires bubblewrap.\n")


def test_the_one_that_programs_run_in_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ForkingChamber, "probe", lambda _: Probe(passed=True))
    sandbox()
    assert capsys.readouterr().out.endswith("Programs run in bubblewrap.\n")
