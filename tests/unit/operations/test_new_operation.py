"""One declaration makes a command, a route, a client call, a console form and OpenAPI."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import time
from decimal import Decimal
from fractions import Fraction  # noqa: TC003  requests are read by their annotations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import pytest

import sfumato as sf
import sfumato.console
from sfumato.cli.main import run
from sfumato.console.owner.operation_forms import pages_of, path_of
from sfumato.errors import InternalError, ParameterError
from sfumato.operations import datasets, feeds, ledger, principals, programs, snapshots, tokens
from sfumato.operations.feeds import Feeds
from sfumato.operations.fields import Request, arg, read
from sfumato.operations.operation import OPERATIONS, OWNERS, Context, Operation, Result, operation
from sfumato.operations.principals import Principals
from sfumato.operations.programs import Programs
from sfumato.operations.table import NOUNS, Noun, all_operations
from sfumato.operations.tokens import Tokens
from sfumato.server.app import application
from sfumato.server.openapi import document
from sfumato.server.operation_routes import route_of
from sfumato.server.route_table import ROUTES
from sfumato.testing.servers import Client, served
from sfumato.vault.feeds.feed import FORMATS
from sfumato.vault.principal_registry import PrincipalRegistry
from sfumato.vault.vault import create_vault
from sfumato.vault.vault_api import AnyVault

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.vault.vault import Vault


class WeighReport(Result):
    """What the scratch operation returns."""

    text: str
    operator: str


class Weigh(Request):
    """Weigh something."""

    name: Annotated[str, arg("What to weigh.", positional=True)]
    weight: Annotated[Fraction, arg("Its weight.")]
    twice: Annotated[bool, arg("Whether to weigh it twice.")] = False


class Measured(Request):
    """A field of each plain type."""

    name: Annotated[str, arg("What is measured.", positional=True)]
    twice: Annotated[bool, arg("Whether to measure it twice.")] = False
    count: Annotated[int | None, arg("How often.")] = None
    label: Annotated[str | None, arg("What it is called.")] = None


PAGES = Path(sfumato.console.__file__).parent / "templates"


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Operation]:
    """An operation that is declared for one test."""

    @operation(
        "scale weigh", allowed=OWNERS, examples=[{"name": "stone", "weight": "1/3"}], recorded=True
    )
    def weigh(context: Context, request: Weigh) -> WeighReport:
        weight = request.weight * (2 if request.twice else 1)
        return WeighReport(text=f"{request.name} {weight}", operator=context.operator)

    monkeypatch.setitem(NOUNS, "scale", Noun("scale", "Weigh things.", "Vaults: budgeted answers"))
    monkeypatch.setitem(sys.modules, "scale", sys.modules[__name__])
    yield OPERATIONS[Weigh]
    del OPERATIONS[Weigh]


@pytest.fixture
def vault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Vault]:
    monkeypatch.chdir(tmp_path)
    with create_vault("clinic") as made:
        yield made


@pytest.mark.usefixtures("scratch", "vault")
def test_it_is_a_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scale", "weigh", "-h"]) == 0
    page = capsys.readouterr().out
    assert "Weigh something." in page
    assert "--weight NUMBER" in page
    assert "sfumato scale weigh stone --weight 1/3 --vault clinic" in page
    words = ["scale", "weigh", "stone", "--weight", "1/3", "--twice", "--operator", "ann"]
    assert run([*words, "--vault", "clinic", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"text": "stone 2/3", "operator": "ann"}
    assert run([*words, "--vault", "clinic"]) == 0
    assert capsys.readouterr().out == "text: stone 2/3\noperator: ann\n"
    assert run(["scale", "weigh", "stone", "--weight", "heavy", "--vault", "clinic"]) == 2
    assert "weight must be a number" in capsys.readouterr().err


def test_it_is_a_route_and_a_call_of_the_client(
    scratch: Operation, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    routes = (*ROUTES, route_of(scratch))
    assert application.__kwdefaults__ is not None
    monkeypatch.setitem(application.__kwdefaults__, "routes", routes)
    assert vault._call(Weigh, name="stone", weight="0.1").text == "stone 1/10"
    with served(vault) as server:
        vault.people.add("eve", "external", operator="root")
        tokens = {name: vault.tokens.new(name, operator="root") for name in ("owner", "eve")}
        with sf.connect(server.url, tokens["owner"]) as remote:
            report = remote._call(Weigh, name="stone", weight=0.1, twice=True)
            assert report.text == "stone 1/5"
            assert report.operator.startswith("owner by token ")
        with sf.connect(server.url, tokens["eve"]) as remote:
            with pytest.raises(sf.SfumatoError) as refused:
                remote._call(Weigh, name="stone", weight=1)
            assert refused.value.code == "permission_missing"


def test_it_is_in_the_document_with_its_permission(scratch: Operation) -> None:
    told = document([route_of(scratch)])["paths"]["/v1/admin/scale/weigh"]["post"]
    assert told["x-owner"]
    assert told["security"] == [{"token": ["admin"]}]
    body = told["requestBody"]["content"]["application/json"]
    assert body["schema"]["required"] == ["name", "weight"]
    assert body["schema"]["properties"]["twice"]["description"] == "Whether to weigh it twice."
    assert body["example"] == {"name": "stone", "weight": "1/3"}
    answer = told["responses"]["200"]["content"]["application/json"]["schema"]
    assert answer["required"] == ["text", "operator"]


def test_it_is_a_form_of_the_console(scratch: Operation) -> None:
    pages = [page for page in pages_of([scratch]) if page.path == path_of(scratch)]
    assert [page.method for page in pages] == ["GET", "POST"]
    assert all(page.is_for(None) is False for page in pages)


@pytest.mark.parametrize("declared", all_operations(), ids=lambda declared: declared.name)
def test_every_operation_is_declared_whole(declared: Operation) -> None:
    assert declared.help.endswith(".")
    assert all(field.help for field in declared.fields)
    assert declared.examples
    known = {field.name for field in declared.fields}
    for example in declared.examples:
        assert set(example) <= known
        assert {field.name for field in declared.fields if field.required} <= set(example)
    assert issubclass(declared.result, Result)


FACADES: dict[type, dict[str, type[Request]]] = {
    Principals: {
        "add": principals.AddPrincipal,
        "grant": principals.GrantBudget,
        "lower": principals.LowerBudget,
        "move": principals.MoveBudget,
        "expire": principals.ExpirePrincipal,
        "change": principals.ChangePrincipal,
        "get": principals.ShowPrincipal,
    },
    Feeds: {"read": feeds.ReadFeed, "open_to": feeds.OpenFeed, "stop": feeds.StopFeed},
    Tokens: {"new": tokens.MakeToken, "revoke": tokens.RevokeToken},
    Programs: {"approve": programs.ApproveProgram, "revoke": programs.RevokeProgram},
    AnyVault: {
        "add": datasets.AddDataset,
        "accounts": ledger.ShowAccounts,
        "limit": ledger.SetLimit,
        "raise_snapshot": snapshots.RaiseSnapshot,
        "verify": ledger.VerifyLedger,
    },
}
"""The methods of Python, each with the request that it makes."""


@pytest.mark.parametrize(
    ("facade", "method", "request_type"),
    [
        (facade, method, request)
        for facade, methods in FACADES.items()
        for method, request in methods.items()
    ],
)
def test_methods_of_python_take_what_their_request_says(
    facade: type, method: str, request_type: type[Request]
) -> None:
    declared = OPERATIONS[request_type]
    parameters = dict(inspect.signature(getattr(facade, method)).parameters)
    del parameters["self"]
    if declared.recorded:
        assert parameters.pop("operator").default == "owner"
    assert list(parameters) == [field.name for field in declared.fields]
    for field in declared.fields:
        parameter = parameters[field.name]
        assert (parameter.default is inspect.Parameter.empty) == field.required


def test_the_files_of_feeds_are_those_that_are_written() -> None:
    media = {ending: kind.partition(";")[0] for ending, (kind, _) in FORMATS.items()}
    assert OPERATIONS[feeds.ReadFeed].formats == media


def test_the_table_is_loaded_quickly_and_without_what_runs() -> None:
    code = (
        "import sys; from sfumato.operations.table import all_operations; all_operations(); "
        "heavy = {'numpy', 'pyarrow', 'duckdb', 'sqlalchemy', 'rich', 'typer', 'starlette'}; "
        "print(*heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


@pytest.mark.parametrize("value", [Decimal("1e1000000"), Decimal("Infinity"), Decimal("sNaN")])
def test_a_short_number_that_is_long_to_write_is_refused_at_once(value: Decimal) -> None:
    start = time.perf_counter()
    for name in ("name", "twice", "count"):
        with pytest.raises(ParameterError) as refused:
            read(Measured, {"name": "stone", name: value})
        assert refused.value.parameter == name
    assert time.perf_counter() - start < 1


def test_a_word_null_is_a_word_in_commands_and_forms_and_nothing_in_json() -> None:
    assert read(Measured, {"name": "stone", "label": "null"}, text=True).label == "null"
    assert read(Measured, {"name": "stone", "label": None}).label is None
    with pytest.raises(ParameterError):
        read(Measured, {"name": "stone", "count": "null"}, text=True)


def test_a_ticked_box_of_the_form_is_read_as_true(scratch: Operation) -> None:
    fields = (PAGES / "owner" / "operation.html").read_text()
    assert 'value="true"' in fields
    values = {"name": "stone", "weight": "1/3", "twice": "true"}
    assert read(scratch.request, values, text=True).twice is True  # type: ignore[attr-defined]


def test_a_body_cannot_name_what_stands_in_the_path(vault: Vault) -> None:
    vault.people.add("eve", "external", operator="root")
    with served(vault) as server:
        client = Client(server.url, vault.tokens.new("owner", operator="root"))
        body = {"name": "bob", "epsilon": "0.3"}
        reply = client.ask("POST", "/v1/admin/principals/eve/grant", body)
    assert (reply.status, reply.json["parameter"]) == (422, "name")


def test_listing_principals_computes_what_is_left_once(
    vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        vault.people.add(f"p{number}", "external", operator="root")
    calls = []
    real = PrincipalRegistry.accounts

    def counted(registry: PrincipalRegistry) -> Any:
        calls.append(registry)
        return real(registry)

    monkeypatch.setattr(PrincipalRegistry, "accounts", counted)
    assert len(vault.people.list()) == 3
    assert len(calls) == 1


def test_the_ledger_is_exported_page_by_page_and_never_the_same_page_again() -> None:
    page = ledger.LedgerPage.from_text('{"seq":1}\n{"seq":2}\n')
    following = page.rest(ledger.ExportLedger())
    assert following is not None
    assert following.after == 2
    with pytest.raises(InternalError) as refused:
        page.rest(following)
    assert refused.value.code == "server_unexpected"
    assert ledger.LedgerPage.from_text('{"head":{}}\n').rest(following) is None
