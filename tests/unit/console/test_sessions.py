from __future__ import annotations

from starlette.responses import Response

from sfumato.console.sessions import VisitSession, cookie_name, send_cookie
from sfumato.server.settings import Setting

PLAIN = Setting(hosts=frozenset({"localhost"}))
ENCRYPTED = Setting(hosts=frozenset({"data.example.org"}), is_encrypted=True)


def test_behind_tls_the_browser_holds_the_cookie_to_this_very_host() -> None:
    response = Response()
    send_cookie(response, ENCRYPTED, "x" * 43)
    given = response.headers["set-cookie"]
    assert given.startswith("__Host-sfumato=")
    assert {attribute.strip().lower() for attribute in given.split(";")[1:]} == {
        *("httponly", "path=/", "samesite=strict", "secure")
    }


def test_over_plain_loopback_it_has_a_name_that_browsers_take() -> None:
    assert cookie_name(PLAIN) == "sfumato"


def test_who_signs_out_loses_it() -> None:
    response = Response()
    send_cookie(response, PLAIN, "")
    assert "max-age=0" in response.headers["set-cookie"].lower()


def test_the_word_of_forms_tells_nothing_of_the_cookie_and_notes_that_it_is_needed() -> None:
    session = VisitSession("a" * 43)
    used = [session.is_used]
    assert len(session.form_token) == 64
    assert [*used, session.is_used] == [False, True]
    assert session.form_token != VisitSession("b" * 43).form_token
    assert session.id not in session.form_token
