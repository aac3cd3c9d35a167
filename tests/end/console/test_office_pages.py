"""The owner's pages without a browser: what each form does, what it refuses and who may see it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.end.console.visitors import FORM, SAME

from sfumato.console.owner import consent, principals, releases, tables
from sfumato.console.page_request import Audience

if TYPE_CHECKING:
    from tests.end.console.visitors import Console, Visitor

    from sfumato.testing.servers import Heard

ROWS = "city,age,ill\n" + "".join(
    f"{'north' if n % 2 else 'south'},{n % 80},{('flu', 'gout')[n % 3 == 0]}\n" for n in range(240)
)
ASKED = """\
table = "asked"
unit = { column = "id", max_rows = 1 }
[columns.id]
role = "identifier"
kind = "integer"
nullable = false
[columns.age]
kind = "integer"
bounds = [0, 99]
"""
DAYS = """\
table = "days"
[columns.day]
kind = "date"
bounds = [2020-01-01, 2020-01-31]
[columns.age]
kind = "integer"
bounds = [0, 99]
"""
TABLES, OFFICE = "/console/owner/tables", "/console/owner"
CHAPTERS = (tables, principals, consent, releases)
PAGES = tuple(page for chapter in CHAPTERS for page in chapter.PAGES)


@pytest.fixture
def owner(console: Console) -> Visitor:
    return console.visitor("owner")


def upload(visitor: Visitor, path: str, page: str, name: str, content: bytes) -> Heard:
    """A file as a browser sends it."""
    edge = "x0x0x0x"
    parts = [
        f'--{edge}\r\nContent-Disposition: form-data; name="form"\r\n\r\n{visitor.word(page)}\r\n',
        f'--{edge}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n',
    ]
    body = "".join(parts).encode() + content + f"\r\n--{edge}--\r\n".encode()
    headers = {**FORM, **SAME, "Cookie": f"sfumato={visitor.cookie}",
               "Content-Type": f"multipart/form-data; boundary={edge}"}  # fmt: skip
    return visitor.client.ask("POST", path, body, headers)


def fields(page: str) -> dict[str, str]:
    """What stands in the form of a schema, as a browser would send it back."""
    found = dict(re.findall(r'<input id="[^"]*" name="([^"]*)" type="text" value="([^"]*)"', page))
    found |= dict(re.findall(r'<input type="hidden" name="(state)" value="([^"]*)"', page))
    found |= dict(
        re.findall(r'<textarea id="[^"]*" name="([^"]*)"[^>]*>\n(.*?)</textarea>', page, re.DOTALL)
    )
    for name, options in re.findall(
        r'<select id="[^"]*" name="([^"]*)"[^>]*>(.*?)</select>', page, re.DOTALL
    ):
        chosen = re.search(r'value="([^"]*)" selected', options)
        found[name] = chosen[1] if chosen else ""
    ticks = re.findall(r'<input type="checkbox"[^>]* name="([^"]*)" value="([^"]*)" checked', page)
    return found | dict(ticks)


def test_a_table_is_sent_declared_and_added(console: Console, owner: Visitor) -> None:
    reply = upload(owner, f"{TABLES}/upload", TABLES, "../town.csv", ROWS.encode())
    assert reply.status == 303, reply.body
    draft = reply.headers["location"]
    page = owner.get(draft).body.decode()
    assert "Nothing of it is public yet" in page
    risk = owner.get(f"{draft}/risk")
    assert risk.status == 200
    assert b"<svg" in risk.body
    said = fields(page)
    wrong = owner.post(draft, {"form": owner.word(draft), **said, "c1.low": "old", "c1.high": "9"})
    assert wrong.status == 422
    assert 'id="c1.low-problem"' in wrong.body.decode()
    early = owner.send(f"{draft}/add", name="town", epsilon="1")
    assert early.status == 422
    assert b"has no bounds" in early.body
    right = {**said, "c1.low": "0", "c1.high": "99", "c2.role": "sensitive", "c0.take": "yes"}
    assert owner.post(draft, {"form": owner.word(draft), **right}).status == 303
    for bad, field in (({"name": "people"}, "name"), ({"epsilon": "much"}, "epsilon"),
                       ({"epsilon": ""}, "epsilon")):  # fmt: skip
        refused = owner.send(f"{draft}/add", **{"name": "town", "epsilon": "2", **bad})
        assert refused.status == 422
        assert f'id="{field}-problem"' in refused.body.decode(), refused.body
    added = owner.send(f"{draft}/add", name="town", epsilon="2", delta="1e-6")
    assert added.status == 303, added.body
    assert owner.get(draft).status == 404
    assert console.vault.private("town").schema.column("age").domain is not None
    assert owner.get(f"{TABLES}/town/risk").status == 200
    page = owner.get(f"{TABLES}/town").body.decode()
    wider = {**fields(page), "c1.high": "120"}
    assert owner.post(f"{TABLES}/town", {"form": owner.word(TABLES), **wider}).status == 303
    assert console.vault.private("town").schema.column("age").describe()[3] == "0 to 120"


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.csv", b""), ("a.exe", b"MZ"), ("a.csv", b"\x1f\x8b" + b"0" * 99), ("a.parquet", b"PAR1"),
     ("../../vault.toml", b"x"), ("", b"a,b\n1,2\n")],
)  # fmt: skip
def test_what_is_no_table_is_refused_beside_the_field(
    owner: Visitor, name: str, content: bytes
) -> None:
    reply = upload(owner, f"{TABLES}/upload", TABLES, name, content)
    assert reply.status == 422
    assert 'id="file-problem"' in reply.body.decode()


def test_the_server_reads_nothing_that_its_operator_did_not_offer(owner: Visitor) -> None:
    for source in ("/etc/passwd", "../people.csv", "postgresql://h/d#t", "connection x"):
        reply = owner.send(TABLES, source=source)
        assert reply.status == 422
        assert b"passwd" not in reply.body


def test_people_are_added_changed_invited_and_let_go(console: Console, owner: Visitor) -> None:
    here = f"{OFFICE}/people"
    taken = owner.send(here, name="alice", kind="external")
    assert taken.status == 422
    assert b'id="name-problem"' in taken.body
    made = owner.send(here, name="zoe", kind="external", epsilon="0.5", population="people")
    assert made.headers["location"] == f"{here}/zoe"
    one = f"{here}/zoe"
    assert owner.send(f"{one}/grant", one, epsilon="0.75", population="people").status == 303
    above = owner.send(f"{one}/grant", one, epsilon="1000", population="people")
    assert above.status == 422
    assert b'id="grant.epsilon-problem"' in above.body
    lower = owner.send(f"{one}/lower", one, epsilon="0.25", population="people")
    assert lower.status == 303
    assert console.vault.people.balances("zoe")[0]["balance"] == "epsilon 0.25 of 0.25 left"
    moved = owner.send(f"{one}/move", one, to="buyer", epsilon="0.05", population="people")
    assert moved.status == 303
    link = re.search(rb'id="link">([^<]+)<', owner.send(f"{one}/invite", one).body)
    assert link is not None
    assert owner.get(link[1].decode().removeprefix(console.url)).status == 200
    token = re.search(rb'id="token">(sfu_[^<]+)<', owner.send(f"{one}/token", one).body)
    assert token is not None
    assert console.vault.token_registry.holder(token[1].decode()).principal == "zoe"
    listed = [one.id for one in console.vault.tokens.list() if one.principal == "zoe"]
    assert owner.send(f"{one}/tokens/{listed[0]}", one).status == 303
    assert owner.send(f"{here}/alice/tokens/{listed[0]}", f"{here}/alice").status == 404
    never = owner.send(f"{one}/expire", one, expires="one day")
    assert never.status == 422
    assert b'id="expire.expires-problem"' in never.body
    assert owner.send(f"{one}/expire", one).status == 303
    assert console.vault.people.get("zoe").expires is not None
    assert owner.get(f"{here}/nobody").status == 404


def test_who_spent_what_is_drawn_and_a_budget_set(console: Console, owner: Visitor) -> None:
    console.vault.query("SELECT COUNT(*) FROM people", epsilon="0.1", principal="alice")
    here = f"{OFFICE}/budgets"
    page = owner.get(here).body.decode()
    assert "Budget of people spent by each principal" in page
    assert "alice" in page
    assert " style=" not in page
    assert owner.send(here, account="people", epsilon="0.00001").status == 422
    assert owner.send(here, account="others", epsilon="9").status == 303


def test_releases_are_made_compared_and_opened(console: Console, owner: Visitor) -> None:
    here, vault = f"{OFFICE}/releases", console.vault
    new, table = f"{here}/new/people", f"{TABLES}/people"
    levels = {"c0.hierarchy": "removal", "c1.hierarchy": "widths", "c1.rule": "10, 50"}
    said = {"form": owner.word(table), **fields(owner.get(table).body.decode()), **levels}
    assert owner.post(table, said).status == 303
    assert owner.send(new, family="anonymize", k="many").status == 422
    assert (
        b'id="publish.epsilon-problem"'
        in owner.send(new, family="publish", kind="histogram", columns="sex", epsilon="99").body
    )
    request = {"family": "anonymize", "k": "2, 5", "algorithm": "mondrian", "request": "one"}
    for _ in range(2):  # a double click makes no second job
        assert owner.send(new, **request).status == 303
    publish = {"family": "publish", "kind": "histogram", "columns": "sex", "epsilon": "0.1"}
    assert owner.send(new, **publish).status == 303
    jobs = vault.jobs.list()
    assert len(jobs) == 3
    for one in jobs:
        found = vault.jobs.wait(one, seconds=60)
        assert found.error is None
    ids = [one.id for one in vault.releases.list()]
    word = owner.word(here)
    form = "&".join(["form=" + word, *(f"release={one}" for one in ids)])
    headers = {**FORM, **SAME, "Cookie": f"sfumato={owner.cookie}"}
    assert owner.client.ask("POST", f"{here}/compare", form.encode(), headers).status == 303
    [job] = [one for one in vault.jobs.list() if one.family == "compare"]
    assert vault.jobs.wait(job, seconds=120).error is None
    compared = owner.get(f"{OFFICE}/comparisons/{job.id}")
    assert compared.status == 200
    assert b"<svg" in compared.body
    assert b" style=" not in compared.body
    saved = owner.get(f"{OFFICE}/comparisons/{job.id}/file")
    assert saved.headers["content-disposition"].startswith("attachment")
    kept = f"{here}/{ids[0]}"
    unseen = owner.send(f"{kept}/open", kept, to="public")
    assert unseen.status == 422
    assert b'id="approved-problem"' in unseen.body
    assert owner.send(f"{kept}/open", kept, to="public", approved="yes").status == 303
    assert vault.releases.get(ids[0]).opened_to == ("public",)
    assert owner.get(f"{kept}/files/release.csv").headers["content-disposition"].startswith("att")
    assert owner.get(f"{kept}/files/..%2fvault.toml").status == 404
    assert owner.send(f"{kept}/open", kept).status == 303
    assert vault.releases.get(ids[0]).opened_to == ()


def test_consent_is_given_withdrawn_imported_and_shown(console: Console, owner: Visitor) -> None:
    home = console.vault.config.folder.parent
    (home / "asked.csv").write_text("id,age\n" + "".join(f"{n},{n % 60}\n" for n in range(50)))
    (home / "asked.toml").write_text(ASKED)
    console.vault.add(
        "asked", home / "asked.csv", home / "asked.toml", epsilon=1, purposes=["care", "study"]
    )
    here = f"{OFFICE}/consent/asked"
    assert b"asked" in owner.get(f"{OFFICE}/consent").body
    assert owner.send(here, person="7", purpose="care", answer="yes").status == 303
    shown = owner.send(f"{here}/person", here, person="7").body.decode()
    assert "<td>care</td><td>yes</td>" in shown
    assert "<td>study</td><td>never asked</td>" in shown
    assert owner.send(here, person="7", purpose="every purpose", answer="no").status == 303
    assert console.vault.consent("asked").show(7)["purposes"] == {"care": "no", "study": "no"}
    for wrong in ({"person": "seven"}, {"purpose": "gossip"}):
        said = {"person": "7", "purpose": "care", "answer": "yes", **wrong}
        reply = owner.send(here, **said)
        assert reply.status == 422
        assert f'id="say.{next(iter(wrong))}-problem"' in reply.body.decode()
    file = b"person,purpose,agreed\n8,care,yes\n9,care,yes\n"
    assert upload(owner, f"{here}/import", here, "a.csv", file).status == 303
    broken = upload(
        owner, f"{here}/import", here, "a.csv", b"person,purpose,agreed\n8,care,maybe\n"
    )
    assert broken.status == 422
    assert b"consent.csv" not in broken.body
    saved = owner.get(f"{here}/file")
    assert saved.headers["content-disposition"].startswith("attachment")
    assert b"9,care,yes" in saved.body
    assert owner.get(f"{OFFICE}/consent/nobody").status == 404


def test_a_feed_is_opened_and_stopped(console: Console, owner: Visitor) -> None:
    home, vault = console.vault.config.folder.parent, console.vault
    days = "".join(f"2020-01-{1 + n % 28:02},{n % 60}\n" for n in range(200))
    (home / "days.csv").write_text("day,age\n" + days)
    (home / "days.toml").write_text(DAYS)
    vault.add("days", home / "days.csv", home / "days.toml", epsilon=5)
    count = "SELECT COUNT(*) AS n FROM days"
    vault.feed_registry.add(
        "weekly", count, column="day", every="week", epsilon="0.1", operator="Ann"
    )
    here = f"{OFFICE}/feeds"
    assert b"weekly" in owner.get(here).body
    assert owner.send(f"{here}/weekly/open", here, to="reader").status == 303
    assert vault.feed_registry.get("weekly").to == ("reader",)
    assert owner.send(f"{here}/weekly/open", here, to="nobody").status == 422
    assert owner.send(f"{here}/weekly/stop", here).status == 303
    assert vault.feed_registry.get("weekly").stopped is not None
    assert owner.send(f"{here}/daily/stop", here).status == 404


@pytest.mark.parametrize("name", [None, "alice", "reader"])
def test_for_everybody_else_the_office_is_not_there(console: Console, name: str | None) -> None:
    visitor = console.visitor(name)
    for route in PAGES:
        assert route.audience is Audience.OWNER
        path = re.sub(r"{\w+}", "people", route.path)
        if route.method == "GET":
            reply = visitor.get(path)
        else:
            reply = visitor.send(path, "/console/sign-in" if name is None else "/console")
        if name is None:
            assert reply.status == 303
            assert reply.headers["location"].startswith("/console/sign-in")
        else:
            assert reply.status == 404
