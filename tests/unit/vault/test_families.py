"""A new private method is a module, a request and two entries: its command and routes follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import pytest

import sfumato as sf
from sfumato.cli.main import run
from sfumato.operations import private_methods
from sfumato.operations.fields import NOT_GIVEN, Name, Request, arg
from sfumato.operations.operation import OPERATIONS
from sfumato.operations.private_methods import METHOD_OF, METHODS, Method, PricedRequest
from sfumato.operations.table import METHOD_COMMANDS, Noun
from sfumato.server.operation_routes import operation_routes
from sfumato.server.routing import Call, Route
from sfumato.vault.creation import create
from sfumato.vault.families import FAMILIES, Family
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sfumato.server.authorization import Caller

MODULE = """
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from sqlglot import exp

from sfumato.methods.method import Plan
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.release.release import Guarantee


@dataclass(frozen=True, repr=False)
class Tally(Plan):
    dataset: str
    price: object
    times: int

    name = "tally"

    @property
    def datasets(self):
        return (self.dataset,)

    @property
    def mechanism(self):
        return Geometric(epsilon=self.price.epsilon / self.times, l1_sensitivity=2)

    @property
    def event(self):
        return Geometric(epsilon=self.price.epsilon, l1_sensitivity=2).event

    @property
    def parameters(self):
        return {"cost": self.price.to_record(), "method": {"times": self.times}}

    @property
    def guarantee(self):
        return Guarantee("differential privacy", "Counted.", self.price.to_record())

    def run(self, datasets, entropy):
        data = datasets[self.dataset]
        counted = exp.select(exp.alias_(exp.Count(this=exp.Star()), "n")).from_(data.table)
        rows = data.engine.run(counted)["n"][0].as_py()
        noisy = self.mechanism.steps(np.repeat(rows, self.times), entropy)
        return self._release({"answer": pa.table({"n": noisy})}, {})


def prepare(facts, offer, *, times=1):
    return Tally(facts.declared.schema.table, facts.price(offer), times)
"""


class Tally(PricedRequest, kw_only=True):
    """Count the rows again and again."""

    dataset: Annotated[Name, arg("The data set.", positional=True)]
    times: Annotated[int, arg("The number of counts.")] = NOT_GIVEN


FAMILY = Family(name="tally", module="tally_family", shape="query")
METHOD = Method(
    family=FAMILY,
    command="tally",
    request=Tally,
    example={"dataset": "visits", "times": 2},
    command_examples=(),
)
HELP = "Count the rows again and again."


@pytest.fixture
def vault(files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sf.Vault]:
    """A vault whose doors know one more method."""
    (files / "tally_family.py").write_text(MODULE)
    monkeypatch.syspath_prepend(files)
    monkeypatch.setitem(FAMILIES, "tally", FAMILY)
    monkeypatch.setitem(METHODS, "tally", METHOD)
    monkeypatch.setitem(METHOD_OF, "tally", METHOD)
    monkeypatch.setitem(METHOD_COMMANDS, "tally", Noun("", HELP, "Vaults: budgeted answers"))
    for operation in private_methods._operations():
        if operation.name == "tally":
            request: type[Request] = Tally
            monkeypatch.setitem(OPERATIONS, request, operation)
    create(Path("clinic"))
    Registration(
        name="visits", source="visits.csv", schema=Path("visits.toml"), epsilon="8"
    ).add_to(Path("clinic"))
    with sf.open("clinic") as opened:
        yield opened


def test_a_request_is_planned_and_charged_once(vault: sf.Vault) -> None:
    private = vault.private("visits")
    plan = private.prepare(FAMILY, times=3, epsilon=3)
    answer = private.answer(FAMILY, plan)
    # Noise of scale 2: beyond 60 with probability 3 exp(-30) < 1e-12.
    assert all(abs(n - 4000) < 60 for n in answer.table["n"].to_pylist())
    assert answer.cost == {"epsilon": 3.0}
    assert private.remaining["epsilon"] == 5
    again = private.answer(FAMILY, plan, request_id="again")
    assert not again.charged
    assert again.to_json()["rows"] == answer.to_json()["rows"]


def test_without_a_price_it_costs_a_tenth_of_the_budget(vault: sf.Vault) -> None:
    private = vault.private("visits")
    assert private.answer(FAMILY, private.prepare(FAMILY)).cost == {"epsilon": 0.8}


def test_http_plans_it_and_submits_it_as_a_job(vault: sf.Vault) -> None:
    routes: dict[str, Route] = {
        route.path: route for route in operation_routes(private_methods._operations())
    }
    from sfumato.server.authorization import Caller

    caller: Caller = Caller("owner")
    call = Call(vault, caller, values={"dataset": "visits", "times": 2, "epsilon": "1"})
    forecast = routes["/explain/tally"].handler(call).body
    assert isinstance(forecast, dict)
    assert forecast["balance_after"] == "epsilon 7 of 8 left"
    reply = routes["/tally"].handler(call)
    assert isinstance(reply.body, dict)
    assert reply.headers == {"Location": f"/v1/jobs/{reply.body['job']}"}
    assert vault.jobs.work() == 1
    assert vault.private("visits").remaining["epsilon"] == 7


def test_it_is_a_command(vault: sf.Vault, capsys: pytest.CaptureFixture[str]) -> None:
    vault.close()
    words = ["tally", "visits", "--times", "2", "--epsilon", "1", "--vault", "clinic"]
    assert run([*words, "--explain"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Cost: epsilon 1. Nothing was spent.",
        "Chosen, times: 2",
        "Once charged: epsilon 7 of 8 left.",
    ]
    assert run([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["columns"] == ["n"]
    assert told["cost"] == {"epsilon": 1.0, "charged": True}
    assert set(told) == {"columns", "rows", "error", "cost", "remaining", "receipt", "notes"}
    assert run(words) == 0
    assert (
        "Cost: epsilon 1, asked before: free. Budget: epsilon 7 of 8 left."
        in capsys.readouterr().out
    )
    assert run(["--help"]) == 0
    assert HELP in capsys.readouterr().out
    assert run([*words[:-4], "--epsilon", "11", "--vault", "clinic", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "parameter_out_of_range"


def test_no_field_has_the_name_of_a_parameter_that_the_command_adds() -> None:
    taken = {"name", "out", "option", "explain", "report", "overwrite", "vault", "as_json"}
    taken |= {"principal", "request_id", "model", "require", "owner_report", "publish_findings"}
    for method in METHODS.values():
        options = {name for kind in method.kinds for name in method.options_of(kind)}
        assert not taken & {*method.request.__struct_fields__, *options}
