"""`sfumato serve` hands its flags to the server, and tells where it is."""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from sfumato.cli import serve as serve_command
from sfumato.cli.main import run
from sfumato.vault import vault as vaults

if TYPE_CHECKING:
    from collections.abc import Iterator

URL, LINK = "http://127.0.0.1:8321", "http://127.0.0.1:8321/welcome#once"


class Begun:
    """What was begun in place of a server, and what it was told."""

    def __init__(self) -> None:
        self.told: list[Any] = []

    def Listening(self, **told: Any) -> dict[str, Any]:
        self.told.append(told)
        return told

    def Limits(self, reports_per_hour: int) -> int:
        self.reports_per_hour = reports_per_hour
        return reports_per_hour

    def VaultServer(
        self, vault: object, _: object, *, limits: int, owner_link: bool
    ) -> SimpleNamespace:
        assert limits == self.reports_per_hour
        self.told.append(("one", vault, owner_link))
        return SimpleNamespace(
            url=URL,
            owner_link=LINK,
            close=lambda: self.told.append("closed"),
            answer=self._answer,
        )

    def _answer(self, ready: Any) -> None:
        ready()
        self.told.append("answered")

    def answer_in(
        self,
        processes: int,
        opening: Any,
        _: object,
        *,
        limits: int,
        owner_link: bool,
        ready: Any,
    ) -> None:
        assert limits == self.reports_per_hour
        with opening() as vault:
            self.told.append((processes, vault, owner_link))
        ready(URL, None)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Begun:
    fake = Begun()
    monkeypatch.setattr(serve_command, "load_server", lambda: fake)

    @contextmanager
    def opened(path: Path) -> Iterator[str]:
        yield f"vault {path}"

    monkeypatch.setattr(vaults, "open_vault", opened)
    return fake


def test_it_listens_on_this_machine_alone_unless_told_otherwise(begun: Begun) -> None:
    assert run(["serve", "--vault", "clinic"]) == 0
    plain = {"host": "127.0.0.1", "port": 8321, "allow_hosts": (), "behind_proxy": ()}
    assert begun.told[0] == {**plain, "certificate": None, "key": None, "data": None}
    assert begun.told[1:] == [("one", "vault clinic", False), "answered"]


def test_flags_reach_the_server(begun: Begun) -> None:
    arguments = ["serve", "--host", "0.0.0.0", "--port", "0", "--allow-host", "a.org"]
    arguments += ["--allow-host", "b.org", "--cert", "c.pem", "--key", "k.pem", "--data", "given"]
    arguments += ["--reports-per-hour", "7"]
    assert run([*arguments, "--behind-proxy", "10.0.0.1", "--owner-link"]) == 0
    assert begun.reports_per_hour == 7
    assert begun.told[0] == {
        "host": "0.0.0.0",
        "port": 0,
        "allow_hosts": ("a.org", "b.org"),
        "behind_proxy": ("10.0.0.1",),
        "certificate": Path("c.pem"),
        "key": Path("k.pem"),
        "data": Path("given"),
    }
    assert begun.told[1] == ("one", "vault .", True)


def test_where_it_is_is_told_once_it_listens(
    begun: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--vault", "clinic"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0] == f"Serving {Path('clinic').resolve()} at {URL}. Ctrl-C stops it."
    assert told[1] == f"The sign-in link of the owner, which works once: {LINK}"
    assert run(["serve", "--vault", "clinic", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"url": URL, "owner_link": LINK}
    assert begun.told[-1] == "answered"


def test_a_check_answers_nobody_and_gives_no_link(
    begun: Begun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["serve", "--check", "--json", "--processes", "4"]) == 0
    assert begun.told[-1] == "closed"
    assert json.loads(capsys.readouterr().out) == {"url": URL, "owner_link": None}


def test_several_processes_open_the_vault_each(begun: Begun) -> None:
    assert run(["serve", "--processes", "3", "--vault", "clinic", "--owner-link"]) == 0
    assert begun.told[1:] == [(3, "vault clinic", True)]


@pytest.mark.parametrize("number", ["0", "-1", "65", "100000"])
def test_no_process_is_none_to_answer_and_too_many_are_a_slip(
    begun: Begun, capsys: pytest.CaptureFixture[str], number: str
) -> None:
    assert run(["serve", "--processes", number, "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "parameter_out_of_range"
    assert begun.told[1:] == []


def test_what_is_not_installed_is_named_with_how_to() -> None:
    refused = serve_command.package_missing(ModuleNotFoundError("No.", name="uvicorn"))
    assert refused.code == "package_missing"
    assert "'uvicorn'" in str(refused)
    assert "pip install 'sfumato[serve]'" in str(refused)
