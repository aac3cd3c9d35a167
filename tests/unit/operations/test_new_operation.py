"""One declaration makes a command, a route, a client call, a console form and OpenAPI."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from fractions import Fraction  # noqa: TC003  requests are read by their annotations
from typing import TYPE_CHECKING, Annotated

import pytest

import sfumato as sf
from sfumato.cli.main import run
from sfumato.console.owner.operation_forms import pages_of, path_of
from sfumato.operations import ledger, principals, programs, snapshots, tokens
from sfumato.operations.fields import Request, arg
from sfumato.operations.operation import OPERATIONS, OWNERS, Context, Operation, Result, operation
from sfumato.operations.principals import Principals
from sfumato.operations.programs import Programs
from sfumato.operations.table import NOUNS, Noun, all_operations
from sfumato.operations.tokens import Tokens
from sfumato.server.app import application
from sfumato.server.openapi import document
from sfumato.server.operation_routes import route_of
from sfumato.server.route_table import ROUTES
from sfumato.testing.servers import served
from sfumato.vault.vault import create_vault
from sfumato.vault.vault_api import AnyVault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

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


@pytest.fixture
def scratch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Operation]:
    """An operation that is declared for one test."""

    @operation(
        "scale weigh", allowed=OWNERS, examples=[{"name": "stone", "weight": "1/3"}], recorded=True
    )
    def weigh(context: Context, request: Weigh) -> WeighReport:
        weight = request.weight * (2 if request.twice else 1)
        return WeighReport(text=f"{request.name} {weight}", operator=context.operator)

    monkeypatch.setitem(NOUNS, "scale", Noun("scale", "Weigh things.", "Answer questions"))
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
    Tokens: {"new": tokens.MakeToken, "revoke": tokens.RevokeToken},
    Programs: {"approve": programs.ApproveProgram, "revoke": programs.RevokeProgram},
    AnyVault: {
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


def test_the_table_is_loaded_quickly_and_without_what_runs() -> None:
    code = (
        "import sys; from sfumato.operations.table import all_operations; all_operations(); "
        "heavy = {'numpy', 'pyarrow', 'duckdb', 'sqlalchemy', 'rich', 'typer', 'starlette'}; "
        "print(*heavy & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
