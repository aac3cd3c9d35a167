"""A survey beside a vault: the gate takes its reports and shows its pages, without a token."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

from sfumato.local.rounds import key_file, new_round
from sfumato.local.survey import Survey
from sfumato.testing.servers import Client

from .people_served import Served, people_served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.local.rounds import Round


@pytest.fixture(scope="module")
def gate(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with people_served(tmp_path_factory.mktemp("reports")) as found:
        yield found


@pytest.fixture(scope="module")
def asked(gate: Served) -> Round:
    """A round that is declared while the server runs."""
    folder = gate.vault.config.folder / "surveys"
    folder.mkdir()
    (folder / "broken.toml").write_text("nothing")
    without_key = new_round(folder / "lost.toml", "Lost?", ("yes", "no"), epsilon=1)
    key_file(folder / "lost.toml").unlink()
    assert gate.nobody.ask("GET", f"/survey/{without_key.id}").status == 404
    return new_round(folder / "smoking.toml", "Do you smoke?", ("yes", "no"), epsilon=1)


def test_a_program_answers_at_the_gate_without_a_token(gate: Served, asked: Round) -> None:
    survey = Survey(f"{gate.url}/survey/{asked.id}")
    reports = survey.randomize(["yes"] * 30 + ["no"] * 70)
    assert survey.send(reports).accepted == 100
    assert survey.send(reports).reasons == {"replayed": 100}
    told = gate.nobody.ask("GET", f"/v1/reports/{asked.id}").json
    assert (told["n"], told["rejected_by_reason"]) == (100, {"replayed": 100})
    # One more is counted, and nobody sees it arrive.
    assert survey.send(survey.randomize(["no"])).accepted == 1
    again = gate.nobody.ask("GET", f"/v1/reports/{asked.id}").json
    assert (again["n"], again["estimate"]) == (100, told["estimate"])
    assert again["renewed_every"] == 20
    page = gate.nobody.ask("GET", f"/survey/{asked.id}/results").body.decode()
    assert "renewed when 20 more reports have come" in page


def test_bad_items_are_rejected_one_by_one(gate: Served, asked: Round) -> None:
    path = f"/v1/reports/{asked.id}"
    (ticket,) = gate.nobody.ask("POST", f"{path}/tickets", {}).json["tickets"]
    values: list[object] = [2, -1, 0.5, 10**40, "yes", None, [], {}]
    bad = [{"ticket": ticket, "report": one} for one in values]
    reply = gate.nobody.ask("POST", path, {"reports": [*bad, {"ticket": ticket, "report": 1}]})
    assert reply.status == 422
    assert reply.headers["content-type"] == "application/problem+json"
    assert reply.json["code"] == "reports_rejected"
    assert reply.json["accepted"] == 1
    assert [one["index"] for one in reply.json["rejected"]] == list(range(8))
    assert {one["code"] for one in reply.json["rejected"]} == {"malformed", "outside_domain"}
    bodies: list[object] = [
        *({}, {"reports": []}, {"reports": 3}, {"reports": [{}] * 1001}, {"answers": []})
    ]
    for body in bodies:
        assert gate.nobody.ask("POST", path, body).status == 422
    assert gate.nobody.ask("POST", f"{path}/tickets", {"count": 1001}).status == 422


@pytest.mark.parametrize("form", ["{}&number=1&number=2", "{0}&{0}&number=1", "{}&number=1&x=1"])
def test_a_form_with_a_field_twice_is_no_report(gate: Served, asked: Round, form: str) -> None:
    path = f"/v1/reports/{asked.id}"
    (ticket,) = gate.nobody.ask("POST", f"{path}/tickets", {}).json["tickets"]
    body = form.format(f"ticket={ticket}").encode()
    request = Request(f"{gate.url}/survey/{asked.id}/by-hand", body)
    with pytest.raises(HTTPError) as refused:
        urlopen(request, timeout=30)
    assert refused.value.code == 422
    assert b"Not counted" in refused.value.read()


def test_pages_are_shown_with_the_headers_of_the_gate(gate: Served, asked: Round) -> None:
    for path in ("", "/results", "/survey.mjs", "/survey.css", "/round.toml"):
        reply = gate.nobody.ask("GET", f"/survey/{asked.id}{path}")
        assert reply.status == 200
        assert "default-src 'none'" in reply.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/survey/{}x"),
        ("GET", "/survey/{}/vault.toml"),
        ("GET", "/survey/{}/..%2f..%2fvault.toml"),
        ("GET", "/survey/{}/smoking.key"),
        ("GET", "/v1/reports/{}x"),
        ("POST", "/v1/reports/{}x"),
        ("POST", "/v1/reports/..%2f{}"),
    ],
)
def test_what_is_no_round_is_not_found(gate: Served, asked: Round, method: str, path: str) -> None:
    body: object = {"reports": [{}]} if method == "POST" else None
    reply = gate.nobody.ask(method, path.format(asked.id), body)
    assert (reply.status, reply.json["code"]) == (404, "not_found")


@pytest.mark.parametrize("method", ["DELETE", "PUT", "OPTIONS", "POST"])
def test_a_page_takes_no_other_method(gate: Served, asked: Round, method: str) -> None:
    reply = gate.nobody.ask(method, f"/survey/{asked.id}/results")
    assert (reply.status, reply.json["code"]) == (405, "method_unknown")
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_another_name_of_the_server_is_no_way_in(gate: Served, asked: Round) -> None:
    stranger = Client(gate.url)
    reply = stranger.ask("GET", f"/survey/{asked.id}", None, {"Host": "evil.example"})
    assert reply.status == 421
