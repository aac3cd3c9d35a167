"""A survey beside a vault: the gate takes its reports and shows its pages, without a token."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from tests.end.gate.people_served import Served, people_served

from sfumato.errors import SourceError
from sfumato.methods.local.collection import Collection
from sfumato.methods.local.rounds import key_file, new_round
from sfumato.methods.local.survey import Survey
from sfumato.server.serve import Listening, RoundServer
from sfumato.server.settings import Limits
from sfumato.testing.servers import Client, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.methods.local.rounds import Round
    from sfumato.testing.servers import Heard


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
    assert "updated after every 20 reports" in page


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
    assert (reply.status, reply.json["code"]) == (405, "choice_unknown")
    assert "default-src 'none'" in reply.headers["content-security-policy"]


def test_another_name_of_the_server_is_no_way_in(gate: Served, asked: Round) -> None:
    stranger = Client(gate.url)
    reply = stranger.ask("GET", f"/survey/{asked.id}", None, {"Host": "evil.example"})
    assert reply.status == 421


@pytest.fixture
def strict(tmp_path: Path) -> Iterator[tuple[Served, Round]]:
    """A gate that takes few reports from one address."""
    with people_served(tmp_path, limits=Limits(reports_per_hour=10)) as gate:
        folder = gate.vault.config.folder / "surveys"
        folder.mkdir()
        yield gate, new_round(folder / "smoking.toml", "Do you smoke?", ("yes", "no"), epsilon=1)


def sent(gate: Served, asked: Round, count: int, address: str) -> Heard:
    """What becomes of reports with good tickets from an address."""
    client, path = Client(gate.url, source=address), f"/v1/reports/{asked.id}"
    tickets = client.ask("POST", f"{path}/tickets", {"count": count}).json["tickets"]
    return client.ask("POST", path, {"reports": [{"ticket": t, "report": 0} for t in tickets]})


def test_one_address_cannot_flood_a_round(strict: tuple[Served, Round]) -> None:
    gate, asked = strict
    assert sent(gate, asked, 10, "127.0.0.66").json["accepted"] == 10
    flooded = sent(gate, asked, 1, "127.0.0.66")
    assert (flooded.status, flooded.json["code"]) == (429, "requests_too_frequent")
    assert int(flooded.headers["retry-after"]) <= 360
    # Others answer, by a program or by hand; from the same address nobody does by hand either.
    assert sent(gate, asked, 1, "127.0.0.77").status == 200
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for address, status in (("127.0.0.66", 429), ("127.0.0.77", 200)):
        client, path = Client(gate.url, source=address), f"/survey/{asked.id}"
        (ticket,) = client.ask("POST", f"/v1/reports/{asked.id}/tickets", {}).json["tickets"]
        reply = client.ask("POST", f"{path}/by-hand", f"ticket={ticket}&number=1".encode(), form)
        assert reply.status == status
        assert (b"too many reports within an hour" in reply.body) == (status == 429)
    with closing(Collection(gate.vault.config.folder / "surveys" / "smoking.toml")) as collection:
        found = collection.estimate().to_json()
    assert (found["n"], found["rejected"]) == (12, 0)


def test_floods_at_once_are_counted_together(strict: tuple[Served, Round]) -> None:
    gate, asked = strict
    with ThreadPoolExecutor(8) as pool:
        found = pool.map(lambda _: sent(gate, asked, 3, "127.0.0.66").status, range(16))
    assert sorted(found) == [200] * 3 + [429] * 13


def test_a_round_that_is_served_alone_limits_broken_reports_too(tmp_path: Path) -> None:
    """Each of them is counted on disk, so a flood of them would wear it out."""
    asked = new_round(tmp_path / "smoking.toml", "Do you smoke?", ("yes", "no"), epsilon=1)
    with closing(Collection(tmp_path / "smoking.toml")) as collection:
        server = RoundServer(collection, Listening(port=0), reports_per_hour=10)
        with running(server):
            client = Client(server.url, source="127.0.0.66")
            bodies = [{"reports": "none"}, {"reports": []}, b"{"]
            path = f"/v1/reports/{asked.id}"
            statuses = [client.ask("POST", path, bodies[n % 3]).status for n in range(15)]
            other = Client(server.url).ask("POST", path, {"reports": "none"})
        rejected = collection.estimate().to_json()["rejected"]
    assert statuses.count(429) == 5
    assert other.status == 422
    assert rejected == 11


def test_people_and_the_collector_read_the_limit_on_the_pages(
    strict: tuple[Served, Round],
) -> None:
    gate, asked = strict
    for page in ("", "/results"):
        text = gate.nobody.ask("GET", f"/survey/{asked.id}{page}").body.decode()
        assert "at most 10 reports an hour from" in " ".join(text.split())


def test_a_program_is_told_when_to_send_its_reports_again(strict: tuple[Served, Round]) -> None:
    gate, asked = strict
    survey = Survey(f"{gate.url}/survey/{asked.id}")
    with pytest.raises(SourceError) as refused:
        survey.send(survey.randomize(["no"] * 11))
    assert refused.value.code == "collector_unreachable"
    assert survey.send(survey.randomize(["no"] * 10)).accepted == 10
