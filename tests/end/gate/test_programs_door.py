"""Programs over HTTP: tried, handed in as a job, answered; and by sf.connect as at hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.programs.chambers import OpenChamber

import sfumato as sf
from sfumato.programs import request

from .people_served import Served, people_served
from .test_jobs_door import ended

if TYPE_CHECKING:
    from collections.abc import Iterator

SOURCE = "def f(rows):\n    ages = rows['age'].to_pylist()\n    return sum(ages) / len(ages)\n"
ASKED: dict[str, Any] = {
    "dataset": "people",
    "program": SOURCE,
    "function": "f",
    "output": [{"low": 0, "high": 100}],
    "epsilon": "2",
    "blocks": 10,
}
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


def test_a_program_is_tried_handed_in_and_answered(gate: Served, room: OpenChamber) -> None:
    before = left(gate)
    tried = gate.alice.ask("POST", "/v1/explain/run", ASKED)
    assert tried.status == 200, tried.body
    assert (tried.json["blocks"], room.outputs) == (10, [])
    wrong = gate.alice.ask(
        "POST", "/v1/explain/run", {**ASKED, "program": "def f(rows):\n    return rows['agee']\n"}
    )
    assert (wrong.status, wrong.json["code"]) == (422, "program_failed")
    assert "agee" in wrong.json["detail"]
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
    assert gate.bob.ask("POST", "/v1/run", ASKED).json["code"] == "dataset_not_private"
    assert gate.nobody.ask("POST", "/v1/run", ASKED).status == 401


def test_what_cannot_be_run_is_refused_at_the_door(gate: Served) -> None:
    before = left(gate)
    for asked, code in (
        ({"program": "x" * 70_000}, "program_too_long"),
        ({"program": ""}, "program_empty"),
        ({"function": "no name"}, "function_wrong"),
        ({"blocks": 1}, "blocks_wrong"),
        ({"blocks": 20, "people": 5}, "blocks_too_many"),
        ({"output": []}, "range_missing"),
        ({"output": [{"low": 3, "high": 1}]}, "bounds_reversed"),
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
    with sf.connect(gate.url, gate.alice.token or "") as connected:
        there = connected.private("people")
        forecast = there.dry_run(mean_age, **asked)
        here = gate.vault.private("people", principal="alice").dry_run(mean_age, **asked)
        assert forecast.to_json() == here.to_json()
        with pytest.raises(sf.SfumatoError, match="agee") as caught:
            there.dry_run(misspelt, output=[(0, 1)], epsilon="0.5", blocks=8)
        assert caught.value.code == "program_failed"
        answer = there.run(mean_age, **asked)
    assert answer.to_json().keys() == KEYS
    assert answer.values[0] == pytest.approx(44.5, abs=300)
    assert len(room.outputs) == 8
    assert answer.cost == {"epsilon": 0.5}


def misspelt(rows: Any) -> float:
    return float(rows["agee"][0])
