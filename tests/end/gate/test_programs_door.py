"""Programs over HTTP: tried, handed in as a job, answered; and by sf.connect as at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.end.gate.people_served import Served, people_served
from tests.end.gate.test_jobs_door import ended
from tests.unit.methods.programs.chambers import OpenChamber

import sfumato as sf
from sfumato.methods.programs import request
from sfumato.vault import programs as limits

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SOURCE = "def f(rows):\n    ages = rows['age'].to_pylist()\n    return sum(ages) / len(ages)\n"
ASKED: dict[str, Any] = {
    "dataset": "people",
    "program": SOURCE,
    "function": "f",
    "output": [{"low": 0, "high": 100}],
    "epsilon": "2",
    "blocks": 10,
}
STRICT = "def f(rows):\n    return sum(rows['age']) / len(rows['age'])\n"
KEYS = {"values", "error", "blocks", "cost", "remaining", "receipt", "notes"}


@pytest.fixture(scope="module")
def room() -> Iterator[OpenChamber]:
    """The programs of these tests are ours, and run in this process at once."""
    made = OpenChamber()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(request, "chamber", lambda _choice: made)
        patch.setattr(request, "_wait_until", lambda _moment: None)
        yield made


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory, room: OpenChamber) -> Iterator[Served]:  # noqa: ARG001
    with people_served(tmp_path_factory.mktemp("programs")) as found:
        yield found


def left(gate: Served) -> float:
    accounts = gate.alice.ask("GET", "/v1/ledger").json["accounts"]
    found: float = accounts[0]["remaining"]["epsilon"]
    return found


def approved(gate: Served, program: str, **more: str) -> str:
    """The digest of a program that the owner approved, over HTTP as the owner would."""
    asked = {"program": program, "function": "f", **more}
    made = gate.owner.ask("POST", "/v1/admin/programs", asked)
    assert made.status == 201, made.body
    digest: str = made.json["digest"]
    return digest


def test_a_program_is_tried_handed_in_and_answered(gate: Served, room: OpenChamber) -> None:
    before = left(gate)
    misspelt = SOURCE.replace("age", "agee")
    approved(gate, SOURCE)
    approved(gate, misspelt)
    tried = gate.alice.ask("POST", "/v1/explain/run", ASKED)
    assert tried.status == 200, tried.body
    assert (tried.json["blocks"], room.outputs) == (10, [])
    wrong = gate.alice.ask("POST", "/v1/explain/run", {**ASKED, "program": misspelt})
    assert (wrong.status, wrong.json["code"]) == (422, "program_failed")
    assert "KeyError in line 2" in wrong.json["detail"]
    assert "agee" not in wrong.json["detail"]
    assert left(gate) == before

    handed = gate.alice.ask("POST", "/v1/run", ASKED)
    assert handed.status == 202, handed.body
    told = ended(gate.alice, handed.json["job"])
    assert told["state"] == "done", told
    assert len(room.outputs) == 10
    release = gate.alice.ask("GET", f"/v1/releases/{told['release']}")
    assert release.status == 200
    assert release.json["tables"]["values"]["rows"] == 1
    assert round(before - left(gate), 6) == 2
    # Whoever has no budget for these people is told nothing of them.
    assert gate.bob.ask("POST", "/v1/run", ASKED).json["code"] == "dataset_unknown"
    assert gate.nobody.ask("POST", "/v1/run", ASKED).status == 401


def test_what_cannot_be_run_is_refused_at_the_door(gate: Served) -> None:
    before = left(gate)
    for asked, code in (
        ({"program": "x" * 70_000}, "program_invalid"),
        ({"program": ""}, "program_invalid"),
        ({"function": "no name"}, "program_invalid"),
        ({"blocks": 1}, "parameter_out_of_range"),
        ({"blocks": 20, "people": 5}, "parameter_out_of_range"),
        ({"output": []}, "program_output_invalid"),
        ({"output": [{"low": 3, "high": 1}]}, "bounds_invalid"),
    ):
        reply = gate.alice.ask("POST", "/v1/run", {**ASKED, **asked})
        assert (reply.status, reply.json["code"]) == (422, code), asked
    try:
        big = gate.alice.ask("POST", "/v1/run", {**ASKED, "program": "x" * 10_000_000})
    except ConnectionError:  # it was hung up on before it had sent all
        pass
    else:
        assert big.status == 413
    narrow = gate.vault.tokens.new("alice", operator="Ann", scopes=["query"])
    asker = type(gate.alice)(gate.url, narrow)
    assert asker.ask("POST", "/v1/run", ASKED).status == 403
    assert left(gate) == before


def test_connected_as_at_hand(gate: Served, room: OpenChamber) -> None:
    def mean_age(rows: Any) -> float:
        ages = rows["age"].to_pylist()
        return float(sum(ages) / len(ages))

    asked: dict[str, Any] = {"output": [(0, 100)], "epsilon": "0.5", "blocks": 8}
    for one in (mean_age, misspelt):
        gate.vault.programs.approve(one, operator="Ann")
    with sf.connect(gate.url, gate.alice.token or "") as connected:
        there = connected.private("people")
        forecast = there.dry_run(mean_age, **asked)
        here = gate.vault.private("people", principal="alice").dry_run(mean_age, **asked)
        assert forecast.to_json() == here.to_json()
        with pytest.raises(sf.SfumatoError, match="KeyError in line 2") as caught:
            there.dry_run(misspelt, output=[(0, 1)], epsilon="0.5", blocks=8)
        assert caught.value.code == "program_failed"
        answer = there.run(mean_age, **asked)
    assert answer.to_json().keys() == KEYS
    assert answer.values[0] == pytest.approx(44.5, abs=300)
    assert len(room.outputs) == 8
    assert answer.cost == {"epsilon": 0.5}


def test_native_code_waits_for_the_owner_and_strict_code_does_not(
    gate: Served, room: OpenChamber, tmp_path: Path
) -> None:
    native = {**ASKED, "program": SOURCE + "# another\n", "epsilon": "0.1"}
    before, room.outputs = left(gate), []
    paths = ("/v1/explain/run", "/v1/run")
    for path in paths:
        reply = gate.alice.ask("POST", path, native)
        assert (reply.status, reply.json["code"]) == (403, "program_not_approved")
    assert (left(gate), room.outputs) == (before, [])
    digest = approved(gate, native["program"])
    assert digest in reply.json["detail"]  # what was refused is what was approved
    listed = gate.owner.ask("GET", "/v1/admin/programs").json["programs"]
    assert digest in [one["digest"] for one in listed]
    assert gate.alice.ask("POST", paths[0], native).status == 200
    # To others than owners there is no such place.
    for method, path, body in (
        ("GET", "/v1/admin/programs", None),
        ("POST", "/v1/admin/programs", {"program": SOURCE, "function": "f"}),
        ("DELETE", f"/v1/admin/programs/{digest}", None),
    ):
        assert gate.alice.ask(method, path, body).status == 404
    gone = gate.owner.ask("DELETE", f"/v1/admin/programs/{digest}")
    assert (gone.status, gone.json) == (200, {"revoked": digest})
    assert gate.owner.ask("DELETE", f"/v1/admin/programs/{digest}").status == 404
    assert gate.alice.ask("POST", paths[0], native).status == 403
    assert gate.owner.ask("POST", paths[0], native).status == 200

    strict = {**ASKED, "program": STRICT, "language": "starlark", "epsilon": "0.1"}
    assert gate.alice.ask("POST", paths[0], strict).status == 200
    handed = gate.alice.ask("POST", paths[1], strict)
    assert ended(gate.alice, handed.json["job"])["state"] == "done"
    (tmp_path / "p.star").write_text(STRICT)
    with sf.connect(gate.url, gate.alice.token or "") as connected:
        asked: dict[str, Any] = {"function": "f", "output": [(0, 100)], "epsilon": "0.2"}
        answer = connected.private("people").run(tmp_path / "p.star", blocks=10, **asked)
    assert answer.cost == {"epsilon": 0.2}
    assert gate.alice.ask("POST", paths[0], {**strict, "language": "cobol"}).status == 422


def test_an_owner_approves_from_elsewhere(gate: Served, tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text(SOURCE + "# from elsewhere\n")
    with sf.connect(gate.url, gate.owner.token or "") as connected:
        made = connected.programs.approve(path, function="f")
        assert connected.programs.list() == gate.vault.programs.list()
        assert made in connected.programs.list()
        assert connected.programs.revoke(made.digest) == made.digest
        for wrong in (made.digest, "../tokens", "x" * 64):
            with pytest.raises(sf.SfumatoError) as caught:
                connected.programs.revoke(wrong)
            assert caught.value.code == "program_unknown"
        (tmp_path / "p.star").write_text(STRICT)
        with pytest.raises(sf.SfumatoError) as caught:
            connected.programs.approve(tmp_path / "p.star", function="f")
        assert caught.value.code == "option_not_applicable"
    with (
        sf.connect(gate.url, gate.alice.token or "") as connected,
        pytest.raises(sf.SfumatoError) as caught,
    ):
        connected.programs.list()
    assert caught.value.code == "permission_missing"


def test_rehearsals_are_limited_at_every_door(
    gate: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "MOST_REHEARSALS", 1)
    gate.vault.people.add("eve", "external", epsilon=1, population="people", operator="Ann")
    eve = type(gate.alice)(gate.url, gate.vault.tokens.new("eve", operator="Ann"))
    strict = {**ASKED, "program": STRICT, "language": "starlark", "epsilon": "0.1"}
    assert eve.ask("POST", "/v1/explain/run", strict).status == 200
    # Another token is no other principal.
    again = type(gate.alice)(gate.url, gate.vault.tokens.new("eve", operator="Ann"))
    for asker in (eve, again):
        reply = asker.ask("POST", "/v1/explain/run", strict)
        assert (reply.status, reply.json["code"]) == (429, "rehearsals_too_many")
        assert reply.headers["retry-after"] == "600"
    handed = eve.ask("POST", "/v1/run", {**strict, "epsilon": "0.3"})
    told = ended(eve, handed.json["job"])
    assert (told["state"], told["error"]["code"]) == ("failed", "rehearsals_too_many")
    assert gate.owner.ask("POST", "/v1/explain/run", strict).status == 200
    accounts = eve.ask("GET", "/v1/ledger").json["accounts"]
    assert accounts[0]["remaining"]["epsilon"] == 1


def misspelt(rows: Any) -> float:
    return float(rows["agee"][0])
