"""Exit code 2 or 3 means that nothing has changed: every refusal, and the vault byte for byte."""

from __future__ import annotations

import importlib.util
import json
import runpy
import shutil
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.end.spoiling import (
    COUNT,
    another_ledgers_head,
    asked_as,
    asked_for_consent,
    days_as_people,
    detached,
    edit,
    expose,
    lose_the_configuration,
    make_a_full_folder,
    opened_after_edit,
    opened_before_edit,
    prefixed,
    remove_from_config,
    restore_old_ledger,
    restore_old_registry,
    said_in_file,
    spend,
    text,
    told_apart_by,
    under_column,
)

from sfumato.cli.main import run
from sfumato.data.schema.schema_file import save as save_schema
from sfumato.vault.creation import create

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

ROOT = Path(__file__).parents[2]
FRONT = ROOT / "tests" / "unit" / "methods" / "query"
HISTOGRAM = ("publish", "histogram", "people", "--epsilon", "0.1", "--columns")
SYNTHESIS = ("synthesize", "people", "--epsilon", "0.1", "--columns", "age", "-o", "x.csv")
TWINS = ("synthesize", "people", "--columns", "age", "-o", "x", "--explore")
CHILD = ("synthesize", "visits", "--epsilon", "0.1", "--columns", "cost", "-o", "x.csv", "--child")
PUBLISHED = ("job", "submit", "publish", "--dataset", "people", "--ask")
LIMIT = ("ledger", "limit", "--operator", "ann", "--account")
CONFIG = """
[populations.persons]
epsilon = "2"
[populations.others]
epsilon = "2"
[populations.solo]
epsilon = "2"
[principals.alice.budgets.persons]
epsilon = "1"
[principals.bob.budgets.others]
epsilon = "1"
"""
QUESTIONS: dict[str, str] = {
    question: code
    for question, code in runpy.run_path(str(FRONT / "test_refusals.py"))["REFUSED"].items()
    if code != "plan"  # that one is answered
}


@dataclass(frozen=True)
class Case:
    """A command that is refused, in a vault to which something was done before."""

    code: str
    words: tuple[str, ...]
    exit_code: int = 2
    before: Callable[[], object] = lambda: None


PRICES = [
    Case(code, ("query", COUNT, f"--{name}", given))
    for name, code, values in (
        ("epsilon", "parameter_type_wrong", ("nan",)),
        ("epsilon", "parameter_out_of_range", ("inf", "0", "1e-12", "1000")),
        ("rho", "parameter_type_wrong", ("x",)),
        ("rho", "parameter_out_of_range", ("inf", "0", "1e-30", "1e9")),
    )
    for given in values
]
QUERIES = [
    *PRICES,
    Case("parameter_out_of_range", ("query", COUNT, "--epsilon", "0.1", "--delta", "1")),
    Case("parameter_out_of_range", ("query", COUNT, "--epsilon", "0.1", "--delta", "1e-30")),
    Case("cost_twice",
         ("query", f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS (epsilon = 1) {COUNT[7:]}",
          "--epsilon", "0.1")),
    Case("join_not_allowed",
         ("query", f"{COUNT} p JOIN visits v ON p.id = v.patient", "--epsilon", "0.1"), 2,
         opened_after_edit("../visits.csv", "postgresql://127.0.0.1:1/db#visits")),
    Case("options_conflict", ("query", COUNT, "--epsilon", "0.1", "--rho", "0.1")),
    Case("usage", ("query", COUNT, "--epsilom", "1")),
    Case("budget_exhausted", ("query", COUNT, "--epsilon", "3"), 3),
    Case("budget_exhausted", ("query", COUNT, "--epsilon", "1"), 3, spend),
    Case("budget_exhausted", ("query", COUNT, "--epsilon", "1.5", "--principal", "alice"), 3),
    Case("table_unknown", ("query", COUNT, "--epsilon", "0.1", "--principal", "bob")),
    Case("principal_unknown", ("query", COUNT, "--epsilon", "0.1", "--principal", "eve"), 3),
    Case("request_reused", ("query", f"{COUNT} WHERE age = 1", "--request", "r"), 2, asked_as("r")),
    Case("name_invalid", ("query", COUNT, "--epsilon", "0.1", "--request", "x" * 300)),
    Case("name_invalid", ("query", COUNT, "--epsilon", "0.1", "--request", "feed/x/2024")),
    Case("option_unknown",
         ("feed", "add", "x", COUNT, "--column", "day", "--every", "week", "--method", "tree")),
    Case("vault_missing", ("query", COUNT, "--vault", "nowhere")),
    Case("vault_config_invalid", ("query", COUNT), 2, edit("format = 1", "format = = 1")),
    Case("vault_config_invalid", ("query", COUNT), 2, edit("format = 1", "format = 9")),
    Case("vault_config_invalid", ("query", COUNT), 2, edit("snapshot = 1 ", "snapshot = -1 ")),
    Case("name_invalid", ("query", COUNT), 2, edit("principals.alice", 'principals."a b"')),
    Case("vault_config_invalid", ("query", COUNT), 2, edit("ls.alice", "ls.owner")),
    Case("vault_config_invalid", ("query", COUNT), 2, edit("rows = 1 }", "rows = 0 }")),
    Case("vault_config_invalid", ("query", COUNT), 2, edit('n = "solo"', 'n = "nobody"')),
    Case("budget_out_of_range", ("query", COUNT), 2, edit('epsilon = "1"', 'epsilon = "9"')),
    Case("budget_changed", ("query", COUNT), 2, opened_before_edit('"2"', '"3"')),
    Case("dataset_attached", ("query", COUNT), 2, detached),
    Case("purposes_invalid", ("query", COUNT), 2,
         edit('n = "solo"', 'n = "solo"\nconsent = "age"')),
    Case("encoding_wrong", ("query", COUNT), 2,
         prefixed("people.toml", 'file.encoding = "gbk"\n')),
    Case("source_missing", ("query", COUNT), 2, lambda: Path("people.csv").unlink()),
    Case("source_unready", ("query", COUNT), 2, text("people.csv", "other\n1\n")),
    Case("file_unreadable", ("query", COUNT), 2, lambda: Path("people.toml").unlink()),
    Case("ledger_rolled_back", ("query", COUNT, "--epsilon", "0.1"), 3, restore_old_ledger),
]  # fmt: skip
PUBLICATIONS = [
    Case("parameter_missing", (*HISTOGRAM, "age")),
    Case("choice_unknown", ("publish", "histogrm", "people", "--columns", "age", "-o", "x.csv")),
    Case("dataset_unknown", ("publish", "tree", "places", "--columns", "size", "-o", "x.csv")),
    Case("parameter_out_of_range", (*SYNTHESIS, "--rows", "0")),
    Case("parameter_missing", (*SYNTHESIS, "--method", "workload")),
    Case("option_not_applicable", (*SYNTHESIS, "--method", "privbayes", "--target", "age")),
    Case("column_unknown", (*SYNTHESIS, "--target", "name")),
    Case("option_not_applicable", (*SYNTHESIS, "--quantiles", "age,name")),
    Case("option_not_applicable", (*SYNTHESIS, "--weekdays", "age")),
    Case("outputs_same", (*SYNTHESIS, "--model", "x.csv")),
    Case("outputs_same", (*SYNTHESIS, "--owner-report", "x.csv.json")),
    Case("parameter_type_wrong", (*SYNTHESIS, "--require", "copy<0.1")),
    Case("parameter_type_wrong", (*SYNTHESIS, "--require", "copies=0.1")),
    Case("requirement_failed", (*SYNTHESIS, "--require", "membership<0.6"), 3),
    Case("permission_missing",
         (*SYNTHESIS, "--principal", "alice", "--require", "copies<0.1"), 3),
    Case("options_conflict", (*CHILD, "people")),
    Case("linked_table_invalid", (*CHILD, "visits", "--key", "patient")),
    Case("dataset_unknown", (*CHILD, "vists", "--key", "patient")),
    Case("column_unknown", (*CHILD, "people", "--key", "patient")),
    Case("linked_table_invalid", (*CHILD, "people", "--key", "cost=id")),
    Case("join_not_allowed", (*CHILD, "solo", "--key", "patient=id")),
    Case("join_not_allowed", (*CHILD, "others", "--key", "patient")),
    Case("linked_table_invalid", (*CHILD, "people", "--key", "patient=id"), 2,
         under_column("people", "id", "bounds = [0, 9]")),
    Case("linked_table_invalid", (*CHILD, "people", "--key", "day=id"), 2, days_as_people),
    Case("output_unwritable", (*CHILD, "people", "--key", "patient=id"), 2, text("x", "")),
    Case("option_not_applicable", (*CHILD, "people", "--key", "patient=id", "--explore")),
    Case("parameter_missing", (*TWINS, "--epsilon", "0.1")),
    Case("option_not_applicable", (*TWINS, "--epsilon", "0.1", "--yes", "--report", "x.html")),
    Case("options_conflict", (*SYNTHESIS, "--yes")),
    Case("permission_missing", (*TWINS, "--epsilon", "0.1", "--yes", "--principal", "alice")),
    Case("output_unwritable", (*TWINS, "--epsilon", "0.1", "--yes"), 2, text("x", "")),
    Case("output_exists", (*TWINS[:-2], "full", "--explore", "--epsilon", "0.1", "--yes"), 2,
         make_a_full_folder),
    Case("budget_exhausted", (*TWINS, "--epsilon", "1.9", "--yes"), 3),
    Case("column_unknown", (*HISTOGRAM, "agee", "-o", "x.csv")),
    Case("columns_invalid", (*HISTOGRAM, "age,age", "-o", "x.csv")),
    Case("domain_missing", (*HISTOGRAM, "name", "-o", "x.csv")),
    Case("parameter_type_wrong", (*HISTOGRAM, "age", "--option", "fan", "-o", "x.csv")),
    Case("option_unknown", (*HISTOGRAM, "age", "--option", "fan=2", "-o", "x.csv")),
    Case("options_conflict", (*HISTOGRAM, "age", "--option", "epsilon=1", "-o", "x.csv")),
    Case("budget_exhausted",
         ("publish", "tree", "people", "--columns", "age", "--epsilon", "3", "-o", "x.csv"), 3),
    Case("format_unknown", (*HISTOGRAM, "age", "-o", "x.doc")),
    Case("output_unwritable", (*HISTOGRAM, "age", "-o", "no/x.csv")),
    Case("output_unwritable", (*HISTOGRAM, "age", "-o", "x.csv", "--report", "no/x.html")),
    Case("output_unwritable", (*HISTOGRAM, "age", "-o", "x" * 300 + ".csv")),
    Case("output_exists", (*HISTOGRAM, "age", "-o", "people.csv")),
    Case("output_exists", (*HISTOGRAM, "age,grade", "-o", "x.geojson"), 2,
         text("x.geojson.json", "")),
    Case("output_exists", (*HISTOGRAM, "age", "-o", "x.csv", "--report", "people.csv")),
    Case("output_unwritable", (*HISTOGRAM, "age", "-o", "x.csv", "--report", "clinic")),
    Case("output_unwritable",
         ("publish", "marginals", "people", "--columns", "age,smoker", "--epsilon", "0.1",
          "--option", "way=1", "-o", "taken.csv", "--overwrite"), 2, text("taken", "")),
    Case("file_in_use", (*HISTOGRAM, "age", "-o", "people.csv", "--overwrite")),
    Case("file_in_use", (*HISTOGRAM, "age", "-o", "x.csv", "--report", "clinic/vault.toml",
                           "--overwrite")),
    Case("outputs_same", (*HISTOGRAM, "age", "-o", "x.csv", "--report", "x.csv")),
    Case("ranges_not_answerable",
         ("publish", "quantiles", "people", "--columns", "age", "--epsilon", "0.1",
          "-o", "x.geojson")),
    Case("columns_invalid", (*HISTOGRAM, "age", "-o", "x.geojson")),
    Case("column_unsuitable", (*HISTOGRAM, "age,city", "-o", "x.geojson")),
    Case("source_missing", (*HISTOGRAM, "age", "-o", "x.csv", "--workload", "none.csv")),
    Case("format_unknown",
         (*HISTOGRAM, "age", "-o", "x.csv", "--workload", "people.toml")),
    Case("table_malformed", (*HISTOGRAM, "age", "-o", "x.csv", "--workload", "w.csv"), 2,
         text("w.csv", "")),
    Case("column_unknown", (*HISTOGRAM, "age", "-o", "x.csv", "--workload", "w.csv"), 2,
         text("w.csv", "age_low\n1\n")),
    Case("cell_malformed", (*HISTOGRAM, "age", "-o", "x.csv", "--workload", "w.csv"), 2,
         text("w.csv", "age_low,age_high\n1,x\n")),
    Case("ledger_rolled_back", (*HISTOGRAM, "age", "-o", "x.csv"), 3, restore_old_ledger),
]  # fmt: skip
LEDGER = [
    Case("usage", ("ledger", "burn")),
    Case("usage", ("ledger", "limit", "--account", "persons")),
    Case("usage", ("ledger", "acknowledge")),
    Case("parameter_type_wrong", (*LIMIT, "persons", "--epsilon", "x")),
    Case("parameter_out_of_range", (*LIMIT, "persons", "--epsilon", "-1")),
    Case("parameter_out_of_range", (*LIMIT, "persons", "--epsilon", "1", "--delta", "-1")),
    Case("account_unknown", (*LIMIT, "nobody", "--epsilon", "1"), 2, spend),
    Case("budget_out_of_range", (*LIMIT, "persons", "--epsilon", "1.2"), 2, spend),
    Case("budget_out_of_range", (*LIMIT, "persons/alice", "--epsilon", "5"), 2, spend),
    Case("budget_out_of_range", (*LIMIT, "others", "--epsilon", "0.5"), 2, spend),
    Case("account_elsewhere", (*LIMIT, "persons/alice", "--epsilon", "0.5"), 2,
         remove_from_config('[principals.alice.budgets.persons]\nepsilon = "1"\n')),
    Case("name_invalid",
         ("ledger", "limit", "--operator", "", "--account", "persons", "--epsilon", "3"), 2, spend),
    Case("name_invalid", ("ledger", "acknowledge", "--operator", ""), 2, restore_old_ledger),
    *(
        Case("ledger_rolled_back", words, 3, restore_old_ledger)
        for words in (
            ("ledger", "show"), ("ledger", "export"), ("ledger", "verify"),
            (*LIMIT, "persons", "--epsilon", "3"),
        )
    ),
    *(
        Case(code, ("ledger", action, *more), 2, done)
        for action, *more in (
            ("show",), ("export",), ("verify",), ("acknowledge", "--operator", "a")
        )
        for code, done in (
            ("vault_missing", lambda: Path("clinic/vault.toml").unlink()),
            ("secret_exposed", lambda: expose()),
        )
    ),
]  # fmt: skip
LEDGER += [Case("parameter_out_of_range", ("snapshot", "raise", "--to", "0"))]
JOIN = ("ledger", "join", "--head", "head.json")
LEDGER += [
    Case("usage", JOIN[:2]),
    Case("head_unreadable", JOIN, 2, text("head.json", '{"ledger": 3}')),
    Case("head_unreadable", JOIN, 2, text("head.json", '{"ledger": "3:ab"}')),
    Case("ledger_taken", JOIN, 2, text("head.json", f'{{"ledger": "1:{"0" * 64}"}}')),
    Case("head_not_held", JOIN, 3, another_ledgers_head),
    Case("parameter_out_of_range", ("serve", "--port", "0", "--processes", "0")),
    Case("ledger_rolled_back", ("serve", "--port", "0", "--check"), 3, restore_old_ledger),
]
BEGINNINGS = [
    Case("usage", ("init",)),
    Case("output_exists", ("init", "clinic")),
    Case("ledger_taken", ("init", "new", "--head", "clinic.head")),
    Case("ledger_taken", ("init", "new", "--head", "people.csv")),
    Case("head_unreadable", ("init", "new", "--head", "new/h")),
    Case("output_unwritable", ("init", "people.csv/deep")),
    Case("output_exists", ("init", "clinic"), 2,
         lose_the_configuration),
    Case("schema_missing", ("add", "more", "people.csv", "--epsilon", "1")),
    Case(
        "source_unsupported",
        ("add", "more", "sc://host/;token=t#t", "--schema", "people.toml", "--epsilon", "1"),
    ),
]  # fmt: skip
ADD = ("principal", "add", "eve", "--operator", "ann", "--kind")
BUDGET = ("--population", "persons", "--epsilon")
OF_EVE = ("eve", "--operator", "ann")


def said_in_program() -> None:
    Path("p.py").write_text("def f(rows): return misspelt")


def eve(*more: str) -> Callable[[], object]:
    """With Eve, who may ask about persons."""
    return lambda: _run((*ADD, "external", *BUDGET, "0.5", *more, "--vault", "clinic"))


def _run(words: tuple[str, ...]) -> None:
    assert run([*words]) == 0


def eve_and_bea() -> None:
    """With Eve, and Bea who has nothing yet."""
    eve()()
    _run(
        ("principal", "add", "bea", "--kind", "external", "--operator", "ann", "--vault", "clinic")
    )


PEOPLE = [
    Case("usage", ("principal", "add", "eve", "--operator", "ann")),
    Case("usage", ("principal", "list", "--kind", "external")),
    Case("usage", ("principal", "grant", "--operator", "ann")),
    Case("name_invalid", ("principal", "add", "аdmin", "--operator", "ann", "--kind", "external")),
    Case("choice_unknown", (*ADD, "boss")),
    Case("name_taken", (*ADD, "external"), 2, eve()),
    Case("option_not_applicable", (*ADD, "owner", *BUDGET, "1")),
    Case("choice_unknown", (*ADD, "external", "--shapes", "publish")),
    Case("time_malformed", (*ADD, "external", "--expires", "soon")),
    Case("population_unknown", (*ADD, "external", "--epsilon", "1")),
    Case("parameter_out_of_range",
         (*ADD, "external", "--min-epsilon", "2", "--max-epsilon", "1")),
    Case("budget_out_of_range", (*ADD, "external", *BUDGET, "3")),
    Case("name_invalid", ("principal", "expire", "eve", "--operator", ""), 2, eve()),
    Case("account_elsewhere",
         ("principal", "grant", "alice", "--operator", "ann", *BUDGET, "1")),
    Case("principal_unknown", ("principal", "grant", *OF_EVE, *BUDGET, "1")),
    Case("principal_unknown", ("principal", "list", "eve"), 3),
    Case("budget_out_of_range", ("principal", "grant", *OF_EVE, *BUDGET, "0.4"), 2, eve()),
    Case("budget_out_of_range", ("principal", "lower", *OF_EVE, *BUDGET, "0.6"), 2, eve()),
    Case("budget_not_held",
         ("principal", "lower", *OF_EVE, "--population", "others", "--epsilon", "0"), 2, eve()),
    Case("options_conflict", ("principal", "move", *OF_EVE, "--to", "eve", *BUDGET, "0.1"), 2,
         eve()),
    Case("budget_out_of_range", ("principal", "move", *OF_EVE, "--to", "bea", *BUDGET, "1"), 2,
         eve_and_bea),
    Case("account_elsewhere", (*LIMIT, "persons/eve", "--epsilon", "0.1"), 2, eve()),
    Case("budget_out_of_range", (*LIMIT, "persons", "--epsilon", "0.4"), 2, eve()),
    Case("permission_missing", (*SYNTHESIS, "--principal", "eve"), 3, eve("--shapes", "query")),
    Case("permission_missing", ("query", COUNT, "--epsilon", "0.2", "--principal", "eve"), 3,
         eve("--max-epsilon", "0.1")),
    Case("principal_expired", ("query", COUNT, "--epsilon", "0.1", "--principal", "eve"), 3,
         eve("--expires", "2020-01-01")),
    Case("principal_expired", ("token", "new", *OF_EVE), 3, eve("--expires", "2020-01-01")),
    Case("choice_unknown", ("token", "new", *OF_EVE, "--scopes", "admin"), 2, eve()),
    Case("job_unknown", ("job", "show", "nothing")),
    Case("choice_unknown", ("job", "submit", "query", "--dataset", "people")),
    Case("request_malformed", ("job", "submit", "publish", "--dataset", "people")),
    Case("request_malformed", (*PUBLISHED,
        '{"kind": "tree", "columns": "age", "workload": "a.csv"}')),
    Case("parameter_out_of_range", (*PUBLISHED, '{"kind":"tree","columns":"age","epsilon":1e3}')),
    Case("option_unknown", ("job", "submit", "anonymize", "--dataset", "people", "--ask",
        '{"x":1}')),
    Case("request_malformed", (*PUBLISHED, '{"principal": "alice"}')),
    Case("request_malformed", (*PUBLISHED, "[1]")),
    Case("usage", ("job", "submit", "publish")),
    Case("job_unknown", ("job", "cancel", "nothing")),
    Case("parameter_out_of_range", ("job", "list", "--limit", "0")),
    Case("release_unknown", ("release", "show", "nothing")),
    Case("release_unknown", ("release", "save", "nothing", "-o", "x.csv")),
    Case("release_unknown", ("release", "open", "nothing", "--to", "public", "--operator", "ann")),
    Case("usage", ("job", "show")),
    Case("usage", ("job", "list", "nothing")),
    Case("usage", ("release", "show")),
    Case("usage", ("release", "list", "--to", "alice")),
    Case("usage", ("release", "open", "nothing", "--operator", "ann")),
    Case("token_unknown", ("token", "revoke", "aaaaaaaa", "--operator", "ann")),
    Case("usage", ("token", "new")),
    Case("usage", ("token", "list", "--scopes", "admin")),
    Case("ledger_rolled_back", ("principal", "list"), 3, restore_old_ledger),
    Case("ledger_rolled_back", ("token", "list"), 3, restore_old_ledger),
]  # fmt: skip
AGAIN = (
    "add",
    "again",
    "visits.csv",
    "--schema",
    "visits.toml",
    "--population",
    "persons",
    "--purposes",
    "care",
)
ASKED, FOR_CARE = asked_for_consent(), ("query", COUNT, "--epsilon", "0.1", "--purpose", "care")
CONSENT = [
    Case("parameter_missing", ("query", COUNT, "--epsilon", "0.1"), 2, ASKED),
    Case("parameter_missing", (*HISTOGRAM, "age", "-o", "x.csv"), 2, ASKED),
    Case("parameter_missing", SYNTHESIS, 2, ASKED),
    Case("parameter_missing", (*TWINS, "--epsilon", "0.1", "--yes"), 2, ASKED),
    Case("purpose_unknown", (*FOR_CARE[:-1], "cure"), 3, ASKED),
    Case("purposes_invalid", ("query", COUNT), 2,
         edit('n = "solo"', 'n = "solo"\npurposes = ["care"]')),
    *(
        Case(code, ("query", COUNT), 2, asked_for_consent(purposes))
        for purposes, code in {
            "[]": "purposes_invalid", '["care", "Care"]': "purposes_invalid",
            '["for care"]': "name_invalid", '"care"': "schema_malformed", "[1]":
                "schema_malformed",
        }.items()
    ),
    Case("person_id_invalid", ("query", COUNT), 2, told_apart_by("day")),
    Case("person_id_invalid", ("query", COUNT), 2, told_apart_by("ward")),
    Case("consent_rolled_back", FOR_CARE, 3, restore_old_registry),
    *(
        Case("consent_rolled_back", ("consent", *words), 3, restore_old_registry)
        for words in (("show",), ("verify",), ("withdraw", "1"), ("export", "-o", "x.csv"))
    ),
    Case("usage", ("consent", "give", "1"), 2, ASKED),
    Case("usage", ("consent", "import"), 2, ASKED),
    Case("usage", ("consent", "withdraw"), 2, ASKED),
    Case("registry_unknown", ("consent", "show")),
    Case("registry_unknown", ("consent", "show", "--population", "solo"), 2, ASKED),
    Case("choice_unknown", ("consent", "give", "1", "--purpose", "cure"), 2, ASKED),
    Case("person_id_invalid", ("consent", "withdraw", "007"), 2, ASKED),
    Case("time_malformed", ("consent", "withdraw", "1", "--time", "2999-01-01"), 2, ASKED),
    Case("name_invalid", ("consent", "withdraw", "1", "--operator", ""), 2, ASKED),
    Case("source_missing", ("consent", "import", "none.csv"), 2, ASKED),
    Case("purposes_invalid", AGAIN, 2, ASKED),
    Case("file_malformed", ("consent", "import", "people.csv"), 2, ASKED),
    Case("file_malformed", ("consent", "import", "said.csv"), 2,
         said_in_file("person,purpose,agreed\n1,care,yes\n2,cure,yes\n")),
    Case("output_exists", ("consent", "export", "-o", "people.csv"), 2, ASKED),
    Case("file_in_use", ("consent", "export", "-o", "people.csv", "--overwrite"), 2, ASKED),
]  # fmt: skip
RUN = ("run", "p.py", "people", "--function", "f", "--epsilon", "0.1", "--output", "[[0, 9]]")
PROGRAMS = [
    Case(code, (*RUN, *words), 2, said_in_program)
    for code, words in [
        ("parameter_out_of_range", ("--blocks", "1")),
        ("parameter_out_of_range", ("--blocks", "20", "--people", "9")),
        ("parameter_out_of_range", ("--seconds", "0")),
        ("options_conflict", ("--ranges", "helper")),
        ("program_failed", ("--blocks", "2")),
    ]
]
LEARNING = [
    Case(code, ("learn", kind, "people", "--features", *words, "--epsilon", "0.1", "-o", "x.json"))
    for code, kind, *words in (
        ("column_unknown", "linear", "age"),
        ("option_not_applicable", "kmeans", "age", "--target", "city"),
        ("column_unsuitable", "tree", "city", "--target", "city"),
        ("domain_missing", "kmeans", "wide"),
        ("column_unsuitable", "logistic", "age", "--target", "spend"),
        ("column_unsuitable", "linear", "age", "--target", "city"),
    )
]
LEARNING += [
    Case("format_unknown",
         ("learn", "kmeans", "people", "--features", "age", "--epsilon", "0.1", "-o", name))
    for name in ("x", "x.csv", "x.json.txt")
]  # fmt: skip
CASES = [*QUERIES, *PUBLICATIONS, *PROGRAMS, *LEARNING, *LEDGER, *BEGINNINGS, *PEOPLE, *CONSENT]


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A vault with the tables of the front's tests, whose accounts are open, and a copy of it."""
    home = tmp_path_factory.mktemp("template")
    found = importlib.util.spec_from_file_location("front", FRONT / "conftest.py")
    assert found is not None
    assert found.loader is not None
    front: Any = importlib.util.module_from_spec(found)
    found.loader.exec_module(front)
    lines = [CONFIG]
    for name, entry in front.catalogue.__wrapped__().items():
        save_schema(entry.schema, home / f"{name}.toml")
        columns = [column.name for column in entry.schema.columns]
        (home / f"{name}.csv").write_text(",".join(columns) + "\n")
        lines += [f"[datasets.{name}]", f'source = "../{name}.csv"', f'schema = "../{name}.toml"']
        if hasattr(entry, "population"):
            unit = getattr(entry.unit, "column", None)
            person = (
                f'{{ column = "{unit}", max_rows = {entry.unit.max_rows} }}' if unit else '"row"'
            )
            lines += [f"unit = {person}", f'population = "{entry.population}"']
            continue
        listed = [f"{{ columns = {json.dumps(key)}, rows = {n} }}" for key, n in entry.keys.items()]
        lines += ["public = true", f"keys = [{', '.join(listed)}]"]
    create(home / "clinic")
    with (home / "clinic" / "vault.toml").open("a") as config:
        config.write("\n".join(lines) + "\n")
    opening = ["query", COUNT, "--explain", "--epsilon", "0.1", "--vault", str(home / "clinic")]
    assert run(opening) == 0
    kept = tmp_path_factory.mktemp("kept") / "home"
    shutil.copytree(home, kept)
    return home, kept


@pytest.fixture
def home(template: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch) -> Path:
    """It as it was at first, to stand in; in the same place, for a ledger knows its sources."""
    place, kept = template
    shutil.rmtree(place)
    shutil.copytree(kept, place)
    monkeypatch.chdir(place)
    return place


def snapshot(home: Path) -> dict[str, object]:
    """Every file and folder, byte for byte and with its rights; and what the ledger says."""
    found: dict[str, object] = {}
    for path in sorted(home.rglob("*")):
        content = path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(home))] = (path.lstat().st_mode, content)
    return found


def said(home: Path) -> list[object]:
    """The tables of the ledger, read by other means than ours."""
    database = home / "clinic" / "ledger.sqlite"
    with closing(sqlite3.connect(database)) as opened:
        return [
            opened.execute(f"SELECT * FROM sfumato_{table} ORDER BY 1, 2").fetchall()
            for table in ("entries", "accounts", "balances", "datasets", "requests", "answers")
        ]


def check_refused(case: Case, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = snapshot(home)
    told = said(home)
    assert snapshot(home) == before
    capsys.readouterr()
    words = [*case.words, "--json"]
    if case.words[0] != "init" and "--vault" not in words:
        words += ["--vault", "clinic"]
    assert run(words) == case.exit_code
    output = capsys.readouterr()
    error = json.loads(output.out)["error"]
    assert error["code"] == case.code, error
    assert output.err == f"sfumato: {error['message']}\n"
    assert snapshot(home) == before
    assert said(home) == told


@pytest.mark.parametrize(
    "case", CASES, ids=lambda case: f"{'-'.join(case.words[:2])[:20]}-{case.code}"
)
def test_a_refusal_changes_nothing(
    case: Case, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    case.before()
    check_refused(case, home, capsys)


@pytest.mark.parametrize(
    "questions",
    [
        pytest.param({one: question for question, one in QUESTIONS.items()}.values(), id="a code"),
        pytest.param(QUESTIONS, id="all", marks=pytest.mark.slow),
    ],
)
def test_no_refused_question_changes_anything(
    questions: Iterable[str], home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for question in questions:
        code = QUESTIONS[question]
        check_refused(Case(code, ("query", question, "--epsilon", "0.1")), home, capsys)
