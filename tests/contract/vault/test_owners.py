"""An owner under a name of their own may do and see all that 'owner' does, by every door."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.cli.main import run
from sfumato.testing.servers import Client, served

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.vault.vault import Vault

SCHEMA = """\
table = "people"
[columns.age]
role = "quasi"
kind = "integer"
bounds = [0, 9]
"""
COUNT = "SELECT COUNT(*) AS n FROM people"
OWNERS = ("owner", "olga")


@pytest.fixture(scope="module")
def vault(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Vault]:
    folder = tmp_path_factory.mktemp("owners")
    (folder / "people.csv").write_text("age\n" + "\n".join(str(n % 10) for n in range(50)) + "\n")
    (folder / "people.toml").write_text(SCHEMA)
    with sf.init(folder / "clinic") as made:
        made.add("people", folder / "people.csv", folder / "people.toml", epsilon=9)
        made.people.add("olga", "owner", operator="Ann")
        made.people.add("eve", "external", epsilon=1, operator="Ann")
        made.query(COUNT, epsilon=0.1, principal="eve")
        yield made


@pytest.fixture(scope="module")
def clients(vault: Vault) -> Iterator[dict[str, Client]]:
    with served(vault) as server:
        tokens = {one: vault.tokens.new(one, operator="Ann") for one in (*OWNERS, "eve")}
        yield {name: Client(server.url, token) for name, token in tokens.items()}


def test_they_see_the_whole_ledger(vault: Vault) -> None:
    everything = vault.accounts()
    assert [one["account"] for one in everything] == ["people", "people/eve"]
    assert vault.accounts(principal="olga") == everything
    assert [one["account"] for one in vault.accounts(principal="eve")] == ["people/eve"]


@pytest.mark.parametrize(
    "path",
    ["ledger", "datasets", "datasets/people", "jobs", "releases", "admin/principals",
     "admin/tokens"],
)  # fmt: skip
def test_a_server_tells_both_alike(clients: dict[str, Client], path: str) -> None:
    first, second = (clients[name].ask("GET", f"/v1/{path}") for name in OWNERS)
    assert (first.status, second.status) == (200, 200)
    assert {**first.json, "principal": None} == {**second.json, "principal": None}


def test_they_ask_from_the_population_s_budget(vault: Vault) -> None:
    first, second = (vault.explain(COUNT, epsilon=0.2, principal=name).to_json() for name in OWNERS)
    assert first == second
    before = vault.accounts()[0]["remaining"]
    vault.query(COUNT, epsilon=0.2, principal="olga")
    after = vault.accounts()
    assert after[0]["remaining"] != before
    again = vault.query(COUNT, epsilon=0.2)  # what one owner was told tells another nothing new
    assert (again.charged, vault.accounts()) == (False, after)


def test_the_command_tells_both_alike(vault: Vault, capsys: pytest.CaptureFixture[str]) -> None:
    told = []
    for name in OWNERS:
        asked = ("query", COUNT, "--epsilon", "0.3", "--explain", "--principal", name)
        words = (*asked, "--json", "--vault", str(vault.config.folder))
        assert run(list(words)) == 0
        told.append(capsys.readouterr().out)
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "asked", [{"min_epsilon": 0.1}, {"max_epsilon": 0.1}, {"shapes": "query"}, {"epsilon": 1}]
)
def test_no_limit_is_kept_of_an_owner_that_is_not_applied(
    vault: Vault, asked: dict[str, Any]
) -> None:
    """An owner is bound by nothing, so whatever would bind one is refused, by every way."""
    before = vault.people.get("olga")
    assert (
        code_of(vault.people.add, "otto", "owner", operator="Ann", **asked)
        == "option_not_applicable"
    )
    other = vault.people.grant if "epsilon" in asked else vault.people.change
    assert code_of(other, "olga", operator="Ann", **asked) == "option_not_applicable"
    assert vault.people.get("olga") == before
    assert code_of(vault.people.get, "otto") == "principal_unknown"


def test_limits_of_an_owner_from_before_are_not_shown(vault: Vault) -> None:
    told = {**vault.people.get("olga").to_json(), "max_epsilon": "0.1", "shapes": ["query"]}
    vault.ledger.record("principal", "olga", told, operator="Ann")
    found = vault.people.get("olga")
    assert (found.max_epsilon, found.shapes) == (None, vault.people.get("owner").shapes)
