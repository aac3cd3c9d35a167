"""A family of methods is one module and one entry: its method and its command come with it."""

from __future__ import annotations

import inspect
import json
import pydoc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import sfumato as sf
from sfumato.cli.main import run
from sfumato.vault.creation import create
from sfumato.vault.families import FAMILIES
from sfumato.vault.family import Family, Field
from sfumato.vault.registration import Registration

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def prepare(facts, offer, *, times):
    return Tally(facts.declared.schema.table, facts.price(offer), times)
"""
ENTRY = Family(
    name="tally",
    help="Count the rows again and again.",
    chapter="Vaults: budgeted answers",
    module="tally_family",
    fields=(Field("times", "How often.", "N", type=int, default=1),),
)


@pytest.fixture
def vault(files: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[sf.Vault]:
    """A vault whose doors know one more family, by a module and an entry and nothing else."""
    (files / "tally_family.py").write_text(MODULE)
    monkeypatch.syspath_prepend(files)
    monkeypatch.setitem(FAMILIES, "tally", ENTRY)
    create(Path("clinic"))
    Registration(
        name="visits", source="visits.csv", schema=Path("visits.toml"), epsilon="8"
    ).add_to(Path("clinic"))
    with sf.open("clinic") as opened:
        yield opened


def asked(private: sf.Private, *given: Any, **options: Any) -> Any:
    return private.tally(*given, **options)  # type: ignore[attr-defined]


def test_it_is_a_method_of_private(vault: sf.Vault) -> None:
    private = vault.private("visits")
    answer = asked(private, times=3, epsilon=3)
    # Noise of scale 2: beyond 60 with probability 3 exp(-30) < 1e-12.
    assert all(abs(n - 4000) < 60 for n in answer.table["n"].to_pylist())
    assert answer.cost == {"epsilon": 3.0}
    assert private.remaining["epsilon"] == 5
    again = asked(private, times=3, epsilon=3, request_id="again")
    assert not again.charged
    assert again.to_json()["rows"] == answer.to_json()["rows"]


def test_without_a_price_it_costs_a_tenth_of_the_budget(vault: sf.Vault) -> None:
    assert asked(vault.private("visits")).cost == {"epsilon": 0.8}


def test_it_is_called_as_its_form_says(vault: sf.Vault) -> None:
    private: Any = vault.private("visits")
    asked_for = ["times", "epsilon", "rho", "delta", "request_id"]
    assert list(inspect.signature(private.tally).parameters) == asked_for
    assert private.tally.__doc__.startswith(ENTRY.help)
    assert all(f"{name}: " in private.tally.__doc__ for name in asked_for)
    assert "tally" in pydoc.render_doc(private.tally)
    assert "tally" in dir(private)
    assert "tally" not in dir(vault)
    with pytest.raises(TypeError, match="unexpected keyword argument 'often'"):
        private.tally(often=3)
    with pytest.raises(AttributeError, match="no method 'tallies'"):
        private.tallies()
    with pytest.raises(AttributeError, match="no method 'tally'"):
        vault.tally()  # type: ignore[attr-defined]


def test_where_it_names_its_data_sets_a_vault_has_it_too(
    vault: sf.Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = Family(
        name="ask", help="", chapter="", module="sfumato.vault.query_family",
        fields=FAMILIES["query"].fields, of_dataset=False,
    )  # fmt: skip
    monkeypatch.setitem(FAMILIES, "ask", named)
    found = vault.ask("SELECT COUNT(*) AS n FROM visits", epsilon=1)  # type: ignore[attr-defined]
    assert found.table.column_names == ["n"]


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
    assert ENTRY.help in capsys.readouterr().out
    assert run([*words[:-4], "--epsilon", "11", "--vault", "clinic", "--json"]) == 2
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "parameter_out_of_range"


def test_a_name_is_asked_once() -> None:
    """A shared field means the same in every form, so no family may say it again."""
    shared = {"epsilon", "rho", "delta", "principal", "purpose", "request_id"}
    taken = shared | {"name", "out", "option", "explain", "report", "overwrite", "vault", "as_json"}
    for family in FAMILIES.values():
        own = [one.name for one in family.fields]
        assert len(set(own)) == len(own)
        assert not taken & set(own)
