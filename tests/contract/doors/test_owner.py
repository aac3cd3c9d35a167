"""What an owner does, by both doors: the same methods, the same objects, the same refusals."""

from __future__ import annotations

import inspect
import json
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.contract.doors.conftest import LOCAL, REMOTE, Doors

import sfumato as sf
from sfumato.client.connection import Connection
from sfumato.client.consent import RemoteRegistry
from sfumato.client.stored_releases import RemoteJobs, RemoteRelease, RemoteReleases
from sfumato.client.vault import RemoteVault
from sfumato.errors import InternalError, PolicyError, SfumatoError
from sfumato.operations import ledger
from sfumato.server.serve import Listening
from sfumato.testing.servers import served
from sfumato.vault.consent.registry import ConsentRegistry
from sfumato.vault.jobs.jobs import Jobs
from sfumato.vault.principals import Principal
from sfumato.vault.releases import LocalRelease, Releases
from sfumato.vault.tokens import Token
from sfumato.vault.vault import Vault, create_vault

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

BY: dict[str, Any] = {"operator": "owner"}
VISITS = sf.Schema(
    "visits",
    (
        sf.Column("id", sf.Kind.INTEGER, nullable=False),
        sf.Column("cost", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 50), sf.Widths((5, 10))),
    ),
    unit=sf.Entity("id", max_rows=1),
)
AT_HAND = {
    *("acknowledge", "addresses", "check_purpose", "config", "gatekeeper", "ledger", "refresh"),
    *("stop_thread", "asker", "session", "principal_registry", "token_registry"),
    *("program_registry", "feed_registry", "consent_registries"),
    # The console's own: passwords and open pages stay where the server is.
    *("logins", "history", "close_console"),
}
"""What only who has the folder needs."""
STAFF = sf.Schema(
    "staff",
    (sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), sf.Widths((10, 50))),),
)


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    home = tmp_path_factory.mktemp("owner")
    visits = pa.table({"id": list(range(100)), "cost": [n % 51 for n in range(100)]})
    pq.write_table(visits, home / "visits.parquet")
    pq.write_table(pa.table({"age": [n % 90 for n in range(100)]}), home / "staff.parquet")
    (home / "data").mkdir()
    (home / "data" / "outside.parquet").symlink_to(home / "staff.parquet")
    with create_vault(home / "vault") as vault:
        vault.add("staff", home / "staff.parquet", STAFF, epsilon=9, delta="1e-6")
        asked: dict[str, Any] = {"population": "patients", "purposes": ["care", "research"]}
        vault.add("visits", home / "visits.parquet", VISITS, epsilon=9, **asked)
        vault.people.add("olga", "owner", operator="root")
        vault.people.add("ann", "permanent-staff", epsilon=2, population="staff", operator="root")
        names = ("owner", "olga", "ann")
        with served(vault, listening=Listening(port=0, data=home / "data")) as server:
            tokens = {name: vault.tokens.new(name, operator="root") for name in names}
            yield Doors(vault, server.url, tokens)


@pytest.fixture(scope="module")
def local(doors: Doors) -> Iterator[Any]:
    with doors.open(LOCAL) as vault:
        yield vault


@pytest.fixture(scope="module")
def remote(doors: Doors) -> Iterator[Any]:
    with doors.open(REMOTE) as vault:
        yield vault


@pytest.fixture
def alike(local: Any, remote: Any) -> Callable[[Callable[[Any, str], Any]], Any]:
    """Does the same by both doors, each under a name of its own, and compares what comes of it."""

    def same(script: Callable[[Any, str], Any]) -> Any:
        here, there = script(local, "Lou"), script(remote, "Rex")
        assert type(here) is type(there)
        assert told(here) == told(there).replace("Rex", "Lou")
        return here

    return same


def told(value: Any) -> str:
    """A value in words, such that two are the same where all of their attributes are."""
    plain = value.to_json() if hasattr(value, "to_json") else value
    if isinstance(plain, list):
        return "\n".join(map(told, plain))
    return repr(plain)


def refused(ask: Callable[[], object]) -> tuple[type, str, str]:
    with pytest.raises(SfumatoError) as error:
        ask()
    return type(error.value), error.value.code, error.value.message


@pytest.mark.parametrize(
    ("here", "there", "apart"),
    [
        (ConsentRegistry, RemoteRegistry, set()),
        (
            Jobs,
            RemoteJobs,
            {"start", "stop", "work", "close", "get_of_anyone", "list_done", "look_up"},
        ),
        (Releases, RemoteReleases, {"answer", "read", "look_up"}),
        (LocalRelease, RemoteRelease, set()),
        (Vault, RemoteVault, AT_HAND),
    ],
)
def test_every_method_is_there_and_takes_the_same(here: Any, there: Any, apart: set[str]) -> None:
    named = {name for name in dir(here) if not name.startswith("_")} - apart
    assert len(named) > 2
    assert named <= set(dir(there))
    for name in named:
        if callable(getattr(here, name)):
            mine, others = (
                inspect.signature(getattr(one, name)).parameters for one in (here, there)
            )
            assert list(mine) == list(others), name
            for one in mine:
                assert mine[one].kind == others[one].kind
                assert one == "operator" or mine[one].default == others[one].default


def test_people_are_added_given_budgets_and_let_go(alike: Any, local: Any, remote: Any) -> None:
    def script(vault: Any, name: str) -> list[Principal]:
        rights = {"shapes": "explain,query", "min_epsilon": "1/8", "max_epsilon": 0.5}
        first = vault.people.add(name, "external", **rights, **BY)
        end = datetime(2040, 1, 31, 12, tzinfo=UTC)
        vault.people.add(f"{name}2", "public", expires=end, **BY)
        of = {"population": "staff", **BY}
        made = [first, vault.people.grant(name, epsilon="0.7", delta=1e-7, **of)]
        made += [vault.people.grant(f"{name}2", epsilon=0.1, delta=1e-7, **of)]
        made += [vault.people.move(name, f"{name}2", epsilon=0.2, **of)]
        made += [vault.people.lower(name, epsilon="0.25", **of)]
        made += [vault.people.change(name, kind="permanent-staff", shapes=["publish"], **BY)]
        made += [vault.people.expire(name, at="2040-02-01", **BY), vault.people.get(name)]
        budgets = vault.people.balances(name), vault.people.balances(f"{name}2")
        assert [one[0]["budget"] for one in budgets][1].startswith("epsilon 0.3")
        assert made[-1] == made[-2]
        assert all(isinstance(one, Principal) for one in made)
        return made

    alike(script)
    assert local.people.list() == remote.people.list()
    assert local.people.balances("ann") == remote.people.balances("ann")
    assert repr(remote.people).startswith("<Principals: Lou, Lou2, Rex")
    assert "Lou" in remote.people._repr_html_()


@pytest.mark.parametrize(
    "ask",
    [
        lambda one: one.people.add("ann", "external", **BY),
        lambda one: one.people.add("?", "external", **BY),
        lambda one: one.people.add("", "external", **BY),
        lambda one: one.people.add("new", "boss", **BY),
        lambda one: one.people.add("new", "external", shapes="publish", **BY),
        lambda one: one.people.add("new", "owner", epsilon=1, **BY),
        lambda one: one.people.add("new", "external", epsilon=1, **BY),
        lambda one: one.people.add("new", "external", epsilon="much", population="staff", **BY),
        lambda one: one.people.add("new", "external", expires="never", **BY),
        lambda one: one.people.add("new", "external", min_epsilon=2, max_epsilon=1, **BY),
        lambda one: one.people.add(5, "external", **BY),
        lambda one: one.people.get("nobody"),
        lambda one: one.people.get("a/b"),
        lambda one: one.people.get(""),
        lambda one: one.people.grant("anm", epsilon=1, population="staff", **BY),
        lambda one: one.people.grant("../ann", epsilon=1, population="staff", **BY),
        lambda one: one.people.grant("owner", epsilon=1, population="staff", **BY),
        lambda one: one.people.grant("ann", epsilon=99, population="staff", **BY),
        lambda one: one.people.grant("ann", epsilon=0, population="staff", **BY),
        lambda one: one.people.lower("ann", epsilon=8, population="staff", **BY),
        lambda one: one.people.move("ann", "ann", epsilon=1, population="staff", **BY),
        lambda one: one.people.move("ann", "nobody", epsilon=1, population="staff", **BY),
        lambda one: one.people.expire("ann", at=5, **BY),
        lambda one: one.people.change("ann", kind="owner", **BY),
        lambda one: one.tokens.new("nobody", **BY),
        lambda one: one.tokens.new("ann", scopes="admin", **BY),
        lambda one: one.tokens.new("ann", scopes=[], **BY),
        lambda one: one.tokens.new("ann", expires="soon", **BY),
        lambda one: one.tokens.revoke("aaaaaaaa", **BY),
        lambda one: one.tokens.revoke("a/b", **BY),
        lambda one: one.consent("staff"),
        lambda one: one.consent("nothing"),
        lambda one: one.consent(5),
        lambda one: one.consent().give(1, "cure"),
        lambda one: one.consent().give("one", "care"),
        lambda one: one.consent().give(1, "care", time="2999-01-01"),
        lambda one: one.consent().change([(1, "cure", True, None), (2, "care", "maybe", "x")]),
        lambda one: one.consent().import_file("no-such-file.csv"),
        lambda one: one.consent().show("one"),
        lambda one: one.jobs.submit("guess", "staff"),
        lambda one: one.jobs.submit("publish", "nothing", kind="histogram", columns="age"),
        lambda one: one.jobs.submit("publish", "staff", kind="histogram"),
        lambda one: one.jobs.submit("publish", "staff", kind="histagram", columns="age"),
        lambda one: one.jobs.submit("publish", "staff", kind="histogram", columns="aeg"),
        lambda one: one.jobs.submit("publish", "staff", kind="histogram", columns="age", epsilon=0),
        lambda one: one.jobs.submit("publish", "visits", kind="histogram", columns="cost"),
        lambda one: one.jobs.submit("anonymize", "staff", kk=5),
        lambda one: one.jobs.submit("anonymize", "staff", k=0),
        lambda one: one.jobs.submit("above", "staff", workload="ranges.csv", columns="age"),
        lambda one: one.jobs.submit("anonymize", "staff", k=2, request_id="\n"),
        lambda one: one.limit("nobody", epsilon=1, **BY),
        lambda one: one.limit("staff/ann", epsilon=1, **BY),
        lambda one: one.limit("staff", epsilon="1/100", **BY),
        lambda one: one.limit("staff", epsilon=-1, **BY),
        lambda one: one.limit(5, epsilon=1, **BY),
        lambda one: one.raise_snapshot(0),
        lambda one: one.raise_snapshot("2"),
        lambda one: one.export(5),
        lambda one: one.add("?", "file.parquet", STAFF),
        lambda one: one.add("new", "file.parquet"),
        lambda one: one.add("new", pa.table({"age": [1]}), STAFF),
        lambda one: one.add("new", "file.parquet", STAFF, unit=5),
        lambda one: one.add("new", "file.parquet", "no-such-schema.toml"),
    ],
)  # fmt: skip
def test_what_is_refused_is_refused_alike_and_changes_nothing(
    doors: Doors, local: Any, remote: Any, ask: Callable[[Any], object]
) -> None:
    before = doors.vault.ledger.verify().position
    assert refused(lambda: ask(local)) == refused(lambda: ask(remote))
    assert doors.vault.ledger.verify().position == before


def test_tokens_are_made_listed_and_revoked(doors: Doors, alike: Any, remote: Any) -> None:
    def script(vault: Any, name: str) -> list[Token]:
        vault.people.add(name + "T", "permanent-staff", **BY)
        text = vault.tokens.new(name + "T", scopes=["plan"], expires="2040-01-01", **BY)
        with sf.connect(doors.url, text) as asked:
            assert asked.datasets == ()
        [found] = [one for one in vault.tokens.list() if one.principal == name + "T"]
        assert isinstance(found, Token)
        assert found.used is not None
        assert vault.tokens.revoke(text, **BY) == found.id
        with pytest.raises(PolicyError):
            doors.vault.token_registry.holder(text)
        return [Token(**{**found.__dict__, "id": "some"})]

    alike(script)
    assert remote.tokens.list() == doors.vault.tokens.list()
    assert "ann" in repr(remote.tokens)


def test_the_operator_is_who_holds_the_token(doors: Doors, remote: Any) -> None:
    assert refused(lambda: remote.people.expire("ann", operator="Eve"))[1] == "permission_missing"
    assert refused(lambda: remote.consent().give(1, "care", operator="Eve"))[0] is PolicyError
    with doors.open(REMOTE, "olga") as olga:
        olga.people.change("ann", max_epsilon=2, operator="olga")
        olga.people.change("ann", max_epsilon=1)
    changed = [json.loads(one.body) for one in doors.vault.ledger.entries()][-2:]
    assert {one["operator"] for one in changed} == {f"olga by token {doors.tokens['olga'][4:12]}"}


def test_to_others_than_owners_none_of_it_is_there(doors: Doors) -> None:
    before = doors.vault.ledger.verify().position
    with doors.open(REMOTE, "ann") as ann:
        for ask in (
            ann.people.list,
            lambda: ann.people.get("olga"),
            lambda: ann.people.grant("ann", epsilon=3, population="staff"),
            lambda: ann.people.move("olga", "ann", epsilon=3),
            lambda: ann.tokens.new("owner"),
            ann.tokens.list,
            ann.consent,
            lambda: ann.consents,
            lambda: ann.add("stolen", "more.parquet", STAFF, epsilon=1),
            lambda: ann.limit("staff", epsilon=10),
            lambda: ann.jobs.submit("anonymize", "staff", k=2),
            lambda: ann.export("ledger.jsonl"),
            lambda: ann.snapshot,
            ann.raise_snapshot,
            ann.verify,
        ):
            assert refused(ask)[:2] == (PolicyError, "permission_missing")
    assert doors.vault.ledger.verify().position == before


def test_what_must_not_happen_twice_is_sent_once(
    remote: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Answers get lost after the server did it: it is not asked to do it again."""
    of: dict[str, Any] = {"population": "staff", "epsilon": 0.1}
    for name in ("may", "mia"):
        remote.people.add(name, "public")
        remote.people.grant(name, **of)
    once = Connection._once

    def lost(self: Any, *request: Any) -> Any:
        once(self, *request)
        raise ConnectionResetError

    monkeypatch.setattr(Connection, "_once", lost)
    for ask in (
        lambda: remote.people.move("may", "mia", population="staff", epsilon=0.01),
        lambda: remote.tokens.new("mia"),
        lambda: remote.people.add("max", "public"),
    ):
        assert refused(ask)[:2] == (InternalError, "change_uncertain")
    monkeypatch.undo()
    assert remote.people.balances("may")[0]["budget"].startswith("epsilon 0.09")
    assert len([one for one in remote.tokens.list() if one.principal == "mia"]) == 1


def test_consent_is_given_withdrawn_imported_and_exported(
    alike: Any, local: Any, remote: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfumato.client.consent.MOST_CHANGES", 3)
    people = {"Lou": 1000, "Rex": 2000}

    def apart(value: Any) -> Any:
        return {k: v for k, v in value.items() if k != "version"}

    def script(vault: Any, door: str) -> list[Any]:
        first, registry = people[door], vault.consent("visits")
        assert registry.purposes == ("care", "research")
        assert vault.consents == ("patients",)
        before = registry.version
        found = [registry.give(first, "care", time="2026-01-02"), registry.give(first, "research")]
        found += [registry.withdraw(first, "care", time="2026-01-01"), registry.withdraw(first)]
        found += [registry.withdraw(str(first)), registry.change([])]
        found += [registry.change([(first + n, "care", n % 2 == 0, None) for n in range(10)])]
        file = tmp_path / f"{door}.csv"
        lines = [f"{first + n},care,{'no' if n == 2 else 'yes'},2026-02-01" for n in range(20, 40)]
        file.write_text("\n".join(["person,purpose,agreed,time", *lines]) + "\n")
        found += [registry.import_file(file), registry.import_file(file)]
        assert registry.version > before
        shown = registry.show(first)
        assert shown["history"][0]["time"].startswith("2026-01-02")
        assert f"{first + 25},care,yes,2026-02-01" in registry.to_csv()
        found += [{**shown, "history": [one["agreed"] for one in shown["history"]]}]
        return [apart(one) for one in found]

    alike(script)
    assert local.consent().to_csv() == remote.consent().to_csv()
    assert local.consent().show() == remote.consent().show()
    assert local.consent().version == remote.consent().version
    assert repr(remote.consent()).partition(": ")[2] == repr(local.consent()).partition(": ")[2]
    written = remote.consent().export(tmp_path / "all.csv")
    assert written["rows"] > 40
    assert (tmp_path / "all.csv").read_text() == local.consent().to_csv()
    assert (
        refused(lambda: remote.consent().export(tmp_path / "all.csv"))[1]
        == refused(lambda: local.consent().export(tmp_path / "all.csv"))[1]
    )


def test_jobs_of_every_family_are_submitted_and_opened(alike: Any) -> None:
    ages: dict[str, Any] = {"columns": ["age"], "epsilon": "0.1"}

    def script(vault: Any, name: str) -> list[Any]:
        asked: list[tuple[str, dict[str, Any]]] = [
            ("publish", {"kind": "histogram", **ages}),
            ("above", {**ages, "workload": [[[0, 9]], [[50, 60]]], "threshold": 5}),
            ("synthesize", {"method": "independent", "epsilon": 0.1}),
            ("anonymize", {"k": 5, "weights": {"age": 1}, "suppress": 0.1}),
        ]
        jobs = [vault.jobs.submit(family, "staff", **more) for family, more in asked]
        again = vault.jobs.submit("anonymize", "staff", k=4, request_id=f"once{name}")
        same = vault.jobs.submit("anonymize", "staff", k=4, request_id=f"once{name}")
        assert same.id == again.id
        ended = [vault.jobs.wait(one, seconds=60) for one in (*jobs, again)]
        assert {str(one.state) for one in ended} == {"done"}, [one.error for one in ended]
        release = vault.releases.open_to(jobs[3].id, ["ann", "public"], **BY)
        assert release.opened_to == ("ann", "public")
        shut = vault.releases.shut(jobs[3].id, **BY)
        assert shut.opened_to == ()
        return [(one.family, one.dataset, one.purpose, one.principal) for one in ended]

    alike(script)


def test_releases_are_told_and_saved_alike(local: Any, remote: Any, tmp_path: Any) -> None:
    job = remote.jobs.wait(remote.jobs.submit("anonymize", "staff", k=3), seconds=60)
    here, there = local.releases.get(job.id), remote.releases.get(job.id)
    assert here.to_json() == there.to_json()
    for ending in ("csv", "zip"):
        mine, others = tmp_path / f"here.{ending}", tmp_path / f"there.{ending}"
        assert here.save(mine)[0].exists()
        assert there.save(others)[0].exists()
    assert (tmp_path / "here.csv").read_bytes() == (tmp_path / "there.csv").read_bytes()
    ask = {"to": "nobody", **BY}
    assert refused(lambda: local.releases.open_to(job.id, **ask)) == refused(
        lambda: remote.releases.open_to(job.id, **ask)
    )


def test_accounts_limits_and_the_ledger(
    doors: Doors, local: Any, remote: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert remote.accounts() == local.accounts()
    assert remote.accounts(principal="ann") == local.accounts(principal="ann")
    assert [one["account"] for one in remote.accounts(principal="ann")] == ["staff/ann"]
    with doors.open(REMOTE, "olga") as olga:
        assert olga.accounts() == local.accounts(principal="olga") == local.accounts()
    with doors.open(REMOTE, "ann") as ann:
        assert ann.accounts() == local.accounts(principal="ann")
        assert refused(lambda: ann.accounts(principal="olga"))[1] == "permission_missing"
    for vault in (local, remote):
        vault.limit("patients", epsilon="9.5", **BY)
        vault.limit("patients", epsilon=10, **BY)
    monkeypatch.setattr(ledger, "MOST_LINES", 7)
    for name, vault in (("here", local), ("there", remote)):
        vault.export(tmp_path / f"{name}.jsonl")
    assert remote.verify() == local.verify()
    assert (tmp_path / "here.jsonl").read_bytes() == (tmp_path / "there.jsonl").read_bytes()
    assert refused(lambda: remote.export(tmp_path / "here.jsonl")) == refused(
        lambda: local.export(tmp_path / "here.jsonl")
    )


def test_data_sets_are_added_from_the_folder_for_data_alone(
    doors: Doors, local: Any, remote: Any
) -> None:
    home = doors.vault.config.folder.parent
    rows = pa.table({"id": list(range(50)), "cost": [n % 51 for n in range(50)]})
    pq.write_table(rows, home / "data" / "more.parquet")
    for source in (
        *("../staff.parquet", "outside.parquet", str(home / "staff.parquet"), "."),
        *("postgresql://localhost/x", "file:///etc/passwd", "data/../../staff.parquet", "/etc/*"),
    ):
        found = refused(partial(remote.add, "stolen", source, STAFF, epsilon=1))
        assert found[1] == "permission_missing", source
    gone = home / "data" / "gone.parquet"
    there = refused(lambda: remote.add("gone", "gone.parquet", STAFF, epsilon=1))
    here = refused(lambda: local.add("gone", gone, STAFF, epsilon=1))
    # The same but for the path, of which a server tells only the last name.
    assert there[1:] == (here[1], here[2].replace(str(gone), gone.name))
    with pytest.warns(UserWarning, match="of its own"):
        remote.add("more", "more.parquet", VISITS, unit=sf.Entity("id", max_rows=2), epsilon="1/2")
    assert "more" in remote.datasets
    pq.write_table(pa.table({"age": list(range(9))}), home / "data" / "ages.parquet")
    remote.add("ages", home / "data" / "ages.parquet", STAFF, public=True, unique=["age"])
    local.refresh()
    assert local.datasets == remote.datasets
    assert local.private("more").schema == remote.private("more").schema
    assert local.private("more").remaining == remote.private("more").remaining
    asked = {"epsilon": "0.25"}
    assert remote.query("SELECT COUNT(*) AS n FROM more", **asked).charged
    assert not local.query("SELECT COUNT(*) AS n FROM more", **asked).charged
    there = refused(lambda: remote.add("more", "more.parquet", VISITS, epsilon=1))
    here = refused(lambda: local.add("more", home / "data" / "more.parquet", VISITS, epsilon=1))
    assert there == (*here[:2], here[2].replace(f"{home / 'vault'}/", ""))


def test_the_snapshot_is_raised_and_seen_by_both(local: Any, remote: Any) -> None:
    asked = ("SELECT COUNT(*) AS m FROM staff",)
    assert remote.query(*asked, epsilon="0.1").charged
    assert not local.query(*asked, epsilon="0.1").charged
    before = local.snapshot
    assert remote.raise_snapshot() == remote.snapshot == before + 1
    assert remote.raise_snapshot(before + 1) == before + 1
    local.refresh()
    assert local.snapshot == before + 1
    assert local.query(*asked, epsilon="0.1").charged
    assert local.raise_snapshot() == before + 2
    assert remote.query(*asked, epsilon="0.1").charged
