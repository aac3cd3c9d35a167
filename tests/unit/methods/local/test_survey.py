"""The client: it randomizes for the round it was invited to, and for no other."""

from __future__ import annotations

import json
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from sfumato.errors import ParameterError, PolicyError, SfumatoError, SourceError
from sfumato.methods.local.collection import Collection
from sfumato.methods.local.rounds import new_round
from sfumato.methods.local.survey import Survey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    new_round(tmp_path / "r.toml", "Really?", ("yes", "no"), epsilon=1)
    return tmp_path / "r.toml"


@contextmanager
def answering(pages: dict[str, tuple[int, bytes]]) -> Iterator[str]:
    """A server that gives these answers, whatever it is asked."""

    class Fixed(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, body = pages.get(self.path, (404, b"{}"))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_POST(self) -> None:
            self.do_GET()

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Fixed) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()


def code(error: pytest.ExceptionInfo[SfumatoError]) -> str:
    return error.value.code


def test_reports_have_a_ticket_each_and_no_answer(path: Path) -> None:
    reports = Survey(path).randomize(["yes", "no"] * 50)
    assert len({one["ticket"] for one in reports.items}) == len(reports) == 100
    assert all(set(one) == {"ticket", "report"} for one in reports.items)
    text = reports.save(path.with_name("batch.jsonl")).read_text()
    assert "yes" not in text
    assert "Really" not in text
    assert "100 randomized reports" in repr(reports)
    assert "Really?" in repr(Survey(path))


def test_an_answer_that_is_no_choice_is_refused_and_not_quoted(path: Path) -> None:
    with pytest.raises(ParameterError) as refusal:
        Survey(path).randomize(["yes", "secret"])
    assert code(refusal) == "value_outside_domain"
    assert "secret" not in str(refusal.value)


def test_a_batch_is_not_replaced_unasked(path: Path) -> None:
    reports = Survey(path).randomize(["yes"])
    place = reports.save(path.with_name("batch.jsonl"))
    with pytest.raises(SfumatoError) as refusal:
        reports.save(place)
    assert code(refusal) == "output_exists"
    assert reports.save(place, overwrite=True) == place


def test_only_the_round_of_the_invitation_is_answered(path: Path, tmp_path: Path) -> None:
    invited = Survey(path)
    assert Survey(path, id=invited.round.id).round == invited.round
    with pytest.raises(PolicyError) as refusal:
        Survey(path, id="a" * 20)
    assert code(refusal) == "round_changed"
    # A server swaps the round for one of its own with a larger epsilon, well signed.
    other = new_round(tmp_path / "other.toml", "Really?", ("yes", "no"), epsilon=10)
    page = f"/survey/{invited.round.id}"
    with answering({f"{page}/round.toml": (200, other.toml().encode())}) as url:
        with pytest.raises(PolicyError) as refusal:
            Survey(url + page)
        assert code(refusal) == "round_changed"
        with pytest.raises(SourceError) as unknown:
            Survey(f"{url}/survey/nothing")
        assert code(unknown) == "collector_unreachable"
    changed = invited.round.toml().replace("Really?", "Oh really?")
    with (
        answering({f"{page}/round.toml": (200, changed.encode())}) as url,
        pytest.raises(PolicyError) as refusal,
    ):
        Survey(url + page)
    assert code(refusal) == "round_changed"


def test_after_a_failure_the_same_reports_go_with_the_same_tickets(path: Path) -> None:
    """The collector kept them, but its answer got lost: what is sent again is the same."""
    with closing(Collection(path)) as collection:
        asked = collection.round
        page, reports_path = f"/survey/{asked.id}", f"/v1/reports/{asked.id}"
        pages = {
            f"{page}/round.toml": (200, asked.toml().encode()),
            f"{reports_path}/tickets": (
                200,
                json.dumps({"tickets": collection.tickets(2)}).encode(),
            ),
            reports_path: (503, b"{}"),
        }
        with answering(pages) as url:
            survey = Survey(url + page)
            reports = survey.randomize(["yes", "no"])
            with pytest.raises(SourceError) as failure:
                survey.send(reports)
            assert code(failure) == "collector_unreachable"
            sent = [dict(one) for one in reports.items]
            assert collection.receive(sent).accepted == 2
            del pages[f"{reports_path}/tickets"]
            pages[reports_path] = (200, b'{"accepted": 2, "rejected": []}')
            assert survey.send(reports).accepted == 2
            assert reports.items == sent
        with pytest.raises(SourceError) as gone:
            survey.send(reports)
        assert code(gone) == "collector_unreachable"


ODD_ANSWERS = [
    *(b"", b"<html>", b"[]", b"{}", b"3", b"null", b"\xff\xfe", b"[" * 50_000),
    b'{"accepted": 2}',
    b'{"accepted": 999999, "rejected": []}',
    b'{"accepted": "2", "rejected": []}',
    b'{"accepted": true, "rejected": [{"index": 0, "code": "replayed"}]}',
    b'{"accepted": -1, "rejected": []}',
    b'{"accepted": 2, "rejected": null}',
    b'{"accepted": 0, "rejected": [{"index": 0, "code": "replayed"}]}',
    b'{"accepted": 1, "rejected": [{"index": 5000, "code": "replayed"}]}',
    b'{"accepted": 1, "rejected": [{"index": 1, "code": "<script>"}]}',
    b'{"accepted": 1, "rejected": [{"index": 1, "code": []}]}',
    b'{"accepted": 1, "rejected": ["replayed"]}',
    b'{"accepted": 0, "rejected": [' + b", ".join([b'{"index": 1, "code": "closed"}'] * 2) + b"]}",
    b'{"tickets": ["a"]}',
    b'{"tickets": [1, 2]}',
    b'{"tickets": ["\\u00e9", "b"]}',
    b'{"tickets": ["5hKPbWy7siWkHNLl-Lny_w", "5hKPbWy7siWkHNLl-Lny_w"]}',
]


def test_odd_answers_of_a_collector_are_one_refusal_and_change_nothing(path: Path) -> None:
    asked = Survey(path).round
    page, reports_path = f"/survey/{asked.id}", f"/v1/reports/{asked.id}"
    pages = {f"{page}/round.toml": (200, asked.toml().encode())}
    with closing(Collection(path)) as collection:
        tickets = json.dumps({"tickets": collection.tickets(2)}).encode()
    with answering(pages) as url:
        survey = Survey(url + page)
        for body in ODD_ANSWERS:
            for place in (f"{reports_path}/tickets", reports_path):
                pages |= {f"{reports_path}/tickets": (200, tickets)}
                pages |= {
                    reports_path: (200, b'{"accepted": 2, "rejected": []}'),
                    place: (200, body),
                }
                reports = survey.randomize(["yes", "no"])
                before = [dict(one) for one in reports.items]
                with pytest.raises(SourceError) as refusal:
                    survey.send(reports)
                assert code(refusal) == "collector_unreachable", body
                if place != reports_path:
                    assert reports.items == before


def test_what_is_no_round_at_an_address_is_told_in_a_sentence(path: Path) -> None:
    page = f"/survey/{Survey(path).round.id}"
    with (
        answering({f"{page}/round.toml": (200, b"\0\xff")}) as url,
        pytest.raises(SourceError) as refusal,
    ):
        Survey(url + page)
    assert code(refusal) == "file_malformed"
    assert refusal.value.message.startswith("The round at this address cannot be read: it is not")


def test_what_cannot_be_sent_is_refused(path: Path, tmp_path: Path) -> None:
    survey = Survey(path)
    with pytest.raises(ParameterError) as refusal:
        survey.send(survey.randomize(["yes"]))
    assert code(refusal) == "address_malformed"
    with pytest.raises(ParameterError) as refusal:
        survey.send(["yes"])  # type: ignore[arg-type]
    assert code(refusal) == "parameter_type_wrong"
    odd = ("http://x:99999/survey/y", "http://[x/survey/y", "http://x:y/z", "http://x/a b")
    for wrong in ("ftp://x/survey/y", "http://", "https:///survey", *odd):
        with pytest.raises(ParameterError) as refusal:
            Survey(wrong)
        assert code(refusal) == "address_malformed"
    new_round(tmp_path / "other.toml", "Really?", ("yes", "no"), epsilon=1)
    foreign = Survey(tmp_path / "other.toml").randomize(["yes"])
    asked = survey.round
    page = f"/survey/{asked.id}"
    with (
        answering({f"{page}/round.toml": (200, asked.toml().encode())}) as url,
        pytest.raises(ParameterError) as refusal,
    ):
        Survey(url + page).send(foreign)
    assert code(refusal) == "round_differs"
