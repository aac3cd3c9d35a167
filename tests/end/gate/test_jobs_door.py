"""Long work and what comes of it over HTTP: whose it is, as which files, and opened to whom."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.end.gate.people_served import ROWS, Served, people_served

from sfumato.operations.releases import ANSWER
from sfumato.server.route_table import ROUTES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.testing.servers import Client

HISTOGRAM = {"dataset": "people", "kind": "histogram", "columns": ["sex"], "epsilon": "0.25"}
NEVER = "0" * 16


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with people_served(tmp_path_factory.mktemp("jobs")) as found:
        yield found


def ended(client: Client, job: str) -> dict[str, Any]:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        told: dict[str, Any] = client.ask("GET", f"/v1/jobs/{job}").json
        if told["state"] not in ("waiting", "running"):
            return told
        time.sleep(0.02)
    raise AssertionError("the job does not end")


def released(client: Client, path: str = "publish", **asked: object) -> str:
    reply = client.ask("POST", f"/v1/{path}", {**HISTOGRAM, **asked})
    assert reply.status == 202, reply.body
    assert reply.headers["location"] == f"/v1/jobs/{reply.json['job']}"
    told = ended(client, reply.json["job"])
    assert told["state"] == "done", told
    name: str = told["release"]
    return name


def test_a_publication_is_a_job_and_then_a_release(gate: Served) -> None:
    before = gate.alice.ask("GET", "/v1/ledger").json["accounts"][0]["remaining"]["epsilon"]
    release = released(gate.alice)
    after = gate.alice.ask("GET", "/v1/ledger").json["accounts"][0]["remaining"]["epsilon"]
    assert round(before - after, 6) == 0.25
    assert release in [
        one["release"] for one in gate.alice.ask("GET", "/v1/releases").json["releases"]
    ]
    told = gate.alice.ask("GET", f"/v1/releases/{release}").json
    assert told["tables"] == {"histogram": {"rows": 3, "columns": ["sex", "count"]}}
    files = {
        name: gate.alice.ask("GET", f"/v1/releases/{release}/{name}") for name in told["files"]
    }
    assert {
        name: reply.headers["content-type"].partition(";")[0] for name, reply in files.items()
    } == {
        "release.csv": "text/csv",
        "release.parquet": "application/vnd.apache.parquet",
        "release.arrow": "application/vnd.apache.arrow.file",
        "report.html": "text/html",
        "release.zip": "application/zip",
    }
    for name, reply in files.items():
        assert reply.headers["content-disposition"] == f'attachment; filename="{name}"'
    with pa.ipc.open_file(files["release.arrow"].body) as arrow:
        rows = arrow.read_all().to_pylist()
    assert files["release.csv"].body.decode().splitlines()[1:] == [
        f"{one['sex'] or ''},{one['count']}" for one in rows
    ]
    whole = gate.alice.ask("GET", f"/v1/releases/{release}", None, {"Accept": ANSWER})
    assert whole.headers["content-type"] == ANSWER
    assert json.loads(whole.body.split(b"\n", 1)[0])["charged"] is True


def test_an_idempotency_key_stands_for_one_job(gate: Served) -> None:
    key = {"Idempotency-Key": "the same"}
    first = gate.alice.ask("POST", "/v1/publish", HISTOGRAM, key)
    again = gate.alice.ask("POST", "/v1/publish", HISTOGRAM, key)
    assert first.json["job"] == again.json["job"]
    other = gate.alice.ask("POST", "/v1/publish", {**HISTOGRAM, "columns": ["age"]}, key)
    assert (other.status, other.json["code"]) == (409, "request_reused")


def test_the_key_of_a_question_is_none_for_a_job(gate: Served) -> None:
    key = {"Idempotency-Key": "a question"}
    asked = {"sql": "SELECT COUNT(*) AS n FROM people", "epsilon": "0.01"}
    assert gate.alice.ask("POST", "/v1/query", asked, key).status == 200
    reused = gate.alice.ask("POST", "/v1/publish", HISTOGRAM, key)
    assert (reused.status, reused.json["code"]) == (409, "request_reused")


def test_what_is_somebody_elses_is_as_if_it_had_never_been(gate: Served) -> None:
    release = released(gate.alice, columns=["age"])
    for method, path in (
        ("GET", "jobs/{}"),
        ("DELETE", "jobs/{}"),
        ("GET", "releases/{}"),
        ("GET", "releases/{}/release.csv"),
        ("POST", "admin/releases/{}/open"),
    ):
        body = {"to": ["bob"]} if method == "POST" else None
        replies = [
            gate.bob.ask(method, f"/v1/{path.format(name)}", body) for name in (release, NEVER)
        ]
        assert [reply.status for reply in replies] == [404, 404], path
        # A refusal may repeat the name that was asked for, and says nothing else.
        theirs, nobodys = (reply.body for reply in replies)
        assert theirs.replace(release.encode(), NEVER.encode()) == nobodys
    for path in ("jobs", "releases"):
        assert release not in gate.bob.ask("GET", f"/v1/{path}").body.decode()
    hidden, never = (
        gate.bob.ask("POST", "/v1/publish", {**HISTOGRAM, "dataset": name})
        for name in ("people", "nothing")
    )
    assert (hidden.status, hidden.body.replace(b"people", b"nothing")) == (never.status, never.body)
    assert gate.alice.ask("GET", f"/v1/jobs/{release}").json["state"] == "done"


def test_only_the_owner_opens_a_release_and_anonymizes(gate: Served) -> None:
    release = released(gate.alice, columns=["sex", "age"])
    opening = f"/v1/admin/releases/{release}/open"
    opened = gate.owner.ask("POST", opening, {"to": ["bob"]})
    assert (opened.status, opened.json["opened_to"]) == (200, ["bob"])
    seen = gate.bob.ask("GET", f"/v1/releases/{release}")
    assert seen.status == 200
    assert b"alice" not in seen.body
    assert "receipt" not in seen.json
    assert gate.bob.ask("GET", f"/v1/releases/{release}/release.csv").status == 200
    assert gate.bob.ask("GET", f"/v1/jobs/{release}").status == 404
    whole = gate.bob.ask("GET", f"/v1/releases/{release}", None, {"Accept": ANSWER})
    assert whole.headers["content-type"] == "application/json"
    assert gate.owner.ask("POST", opening, {"to": []}).json["opened_to"] == []
    assert gate.bob.ask("GET", f"/v1/releases/{release}").status == 404
    wrong = gate.owner.ask("POST", opening, {"to": ["nobody"]})
    assert (wrong.status, wrong.json["code"]) == (422, "reader_unknown")
    asked = {"dataset": "people", "k": 2, "algorithm": "permute"}
    assert gate.alice.ask("POST", "/v1/anonymize", asked).status == 404


def test_a_job_is_cancelled_and_what_cannot_be_done_is_no_job(gate: Served) -> None:
    job = gate.alice.ask("POST", "/v1/publish", {**HISTOGRAM, "epsilon": "0.01"}).json["job"]
    told = gate.alice.ask("DELETE", f"/v1/jobs/{job}")
    assert told.status == 200
    assert told.json["state"] in ("cancelled", "done")
    for status, code, body in (
        (422, "column_unknown", {"columns": ["nothing"]}),
        (422, "request_malformed", {"workload": "/etc/passwd"}),
        (422, "parameter_out_of_range", {"epsilon": 0}),
        (422, "option_unknown", {"principal": "owner"}),
        (422, "plan_changed", {"plan": "f" * 64}),
    ):
        reply = gate.alice.ask("POST", "/v1/publish", {**HISTOGRAM, **body})
        assert (reply.status, reply.json["code"]) == (status, code), reply.body
    for query in ("limit=0", "limit=-1", "limit=1e20", "limit=1&limit=2", "sort=;drop"):
        assert gate.alice.ask("GET", f"/v1/jobs?{query}").status == 422, query
    assert len(gate.alice.ask("GET", "/v1/jobs?limit=1").json["jobs"]) == 1


def test_files_that_are_none_are_not_there(gate: Served) -> None:
    release = released(gate.alice)
    never = gate.alice.ask("GET", f"/v1/releases/{NEVER}/release.csv")
    assert never.status == 404
    for name in (
        "nothing.csv",
        "..%2f..%2fvault.toml",
        "%2e%2e",
        "release.csv%00",
        "release.csv%2F",
        "RELEASE.CSV",
        "a" * 3000,
    ):
        reply = gate.alice.ask("GET", f"/v1/releases/{release}/{name}")
        assert reply.status == 404, name
        assert reply.body == never.body, name


def test_a_family_of_one_data_set_has_its_door() -> None:
    paths = {(route.method, route.path) for route in ROUTES}
    assert {
        ("POST", f"/{name}") for name in ("publish", "watch", "synthesize", "anonymize")
    } < paths


def test_jobs_of_neighbouring_tables_are_told_in_the_same_bytes(tmp_path: Path) -> None:
    """Apart from names and times that nobody chooses, and from figures that noise was added to."""
    told = []
    for name, rows in (("with", ROWS), ("without", ROWS[:-1])):
        with people_served(tmp_path / name, rows) as gate:
            job = gate.alice.ask("POST", "/v1/publish", HISTOGRAM).json["job"]
            done = ended(gate.alice, job)
            seen = [
                done,
                gate.alice.ask("GET", "/v1/releases").json,
                gate.alice.ask("GET", f"/v1/releases/{job}").json,
                gate.alice.ask("GET", f"/v1/releases/{job}/nothing").json,
            ]
            seen[2].pop("receipt")  # it binds the answer, and so the noise
            for one in ("submitted", "started", "ended"):
                done.pop(one)
            told.append(json.dumps(seen).replace(job, "..."))
    assert told[0] == told[1]
