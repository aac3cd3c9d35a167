"""Whatever is thrown at a public method, a refusal in words comes back, never an error of ours."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyarrow import parquet

import sfumato as sf
from sfumato.methods.programs.source import text_of
from sfumato.methods.query.builder import BuiltQuestion, Frame, Grouped
from sfumato.operations.principals import Principals
from sfumato.operations.tokens import Tokens
from sfumato.vault.consent.registry import ConsentRegistry
from sfumato.vault.families import FAMILIES
from sfumato.vault.jobs.jobs import Jobs
from sfumato.vault.publications import Published
from sfumato.vault.releases import Releases
from sfumato.vault.syntheses import Synthesized

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

ROWS = [
    {"age": 20 + place % 40, "city": "ab"[place % 2], "x": place % 9, "y": place % 7}
    for place in range(200)
]
COUNT = "SELECT COUNT(*) AS n FROM people"
SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), sf.Widths((5, 10))),
        sf.Column("city", sf.Kind.TEXT, sf.Role.SENSITIVE, sf.Values(("a", "b"))),
        sf.Column("x", sf.Kind.INTEGER, domain=sf.Bounds(0, 9)),
        sf.Column("y", sf.Kind.INTEGER, domain=sf.Bounds(0, 9)),
    ),
)
ASKED = sf.Schema(
    "asked",
    (sf.Column("x", sf.Kind.INTEGER, sf.Role.IDENTIFIER, nullable=False),),
)
BAD = (5, None, 2.5, b"x", object(), ["x", 5], {"x": object()}, True, "\0nothing", -1, float("nan"))
"""Of each argument those are thrown that it may not be."""


class World:
    """What methods are called on."""

    def __init__(self, folder: Path) -> None:
        parquet.write_table(pa.Table.from_pylist(ROWS), folder / "people.parquet")
        SCHEMA.save(folder / "people.toml")
        self.table = sf.read(ROWS, SCHEMA)
        self.private = sf.protect(ROWS, SCHEMA, epsilon=9, delta=1e-6)
        self.answer = self.private.query(COUNT, epsilon=1)
        self.map = self.private.publish("quadtree", columns=["x", "y"], epsilon=1, height=2)
        self.twin = self.private.synthesize(**SYNTHESIS)
        self.vault = sf.init(folder / "clinic")
        self.vault.add("people", folder / "people.parquet", folder / "people.toml", epsilon=9)
        (folder / "asked.csv").write_text("x\n1\n2\n")
        asked: dict[str, Any] = {"unit": "x", "max_rows": 1, "epsilon": 1, "purposes": ["care"]}
        self.vault.add("asked", folder / "asked.csv", ASKED, **asked)
        for name in ("bob", "zoe"):
            self.vault.people.add(name, "external", operator="ann", **GRANT)
        self.questions = self.vault.questions()


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("world"))
    yield made
    made.vault.close()


def _rows(rows: Any) -> int:
    return int(rows.num_rows)


SYNTHESIS: dict[str, Any] = {
    "epsilon": 0.01,
    "rho": None,
    "delta": 0,
    "method": "independent",
    "rows": 9,
    "columns": ["age", "city"],
    "target": None,
    "workload": None,
    "child": None,
    "key": None,
}
HISTOGRAM: dict[str, Any] = {"columns": "age", "epsilon": 0.01}
GRANT: dict[str, Any] = {"epsilon": 0.1, "delta": 0, "population": "people"}
ABOVE: dict[str, Any] = {"columns": "age", "workload": [[[1, 2]]], "threshold": 5, "epsilon": 0.01}
OF_JOB: dict[str, Any] = {"job": "none", "principal": "owner"}
OF_RELEASE: dict[str, Any] = {"release": "none", "principal": "owner"}
Call = tuple["Callable[[World], Any]", dict[str, Any]]
CALLS: dict[str, Call] = {
    "read": (lambda _: sf.read, {"source": ROWS, "schema": SCHEMA, "strict": True}),
    "protect": (
        lambda _: sf.protect,
        {"table": ROWS, "schema": SCHEMA, "unit": sf.Rows(), "epsilon": 1, "delta": 0}
        | {"max_epsilon": 10},
    ),
    "open": (lambda _: sf.open, {"path": "clinic"}),
    "init": (lambda _: sf.init, {"path": "clinic", "ledger": "l.sqlite", "head": "h"}),
    "table": (lambda _: sf.table, {"name": "people", "alias": "p"}),
    "Frame.where": (lambda _: sf.table("people").where, {"condition": "x > 1"}),
    "Frame.group_by": (lambda _: sf.table("people").group_by, {"keys": "x"}),
    "Frame.aggregate": (lambda _: sf.table("people").aggregate, {"measures": "COUNT(*)"}),
    "Frame.with_columns": (lambda _: sf.table("people").with_columns, {"alias": "r", "c": "x"}),
    "Frame.join": (
        lambda _: sf.table("people").join,
        {"other": sf.table("people"), "alias": "q", "on": "x = y", "how": "inner"},
    ),
    "BuiltQuestion.limit": (lambda _: _built().limit, {"rows": 3}),
    "BuiltQuestion.having": (lambda _: _built().having, {"condition": "n > 1"}),
    "BuiltQuestion.order_by": (lambda _: _built().order_by, {"values": "n"}),
    "Table.inspect": (lambda w: w.table.inspect, {"population": None}),
    "Table.measure": (
        lambda w: w.table.measure,
        {"original": None, "population": None, "workload": None},
    ),
    "Table.attack": (
        lambda w: w.table.attack,
        {
            "name": "homogeneity",
            "known": None,
            "original": None,
            "other": None,
            "control": None,
            "sensitive": None,
            "sure": 1.0,
            "exclude": 1,
            "gain": 2.0,
            "near": 0.25,
            "l": None,
            "population_size": None,
        },
    ),
    "compare": (
        lambda _: sf.compare,
        {"candidates": [ROWS], "original": ROWS, "schema": SCHEMA}
        | {"known": None, "control": None},
    ),
    "Table.worlds": (lambda w: w.table.worlds, {"sql": COUNT, "labels": "public"}),
    "Table.anonymize": (
        lambda w: w.table.anonymize,
        {
            "k": 2,
            "l": 2,
            "diversity": "distinct",
            "c": None,
            "t": 0.9,
            "distance": "equal",
            "delta_disclosure": 9,
            "beta": 9,
            "presence": None,
            "sensitive": "city",
            "population": None,
            "algorithm": "optimal",
            "cost": "loss",
            "suppress": "0.1",
            "suppressed": "drop",
            "refine": False,
            "weights": None,
            "limit_seconds": 9,
            "advice": False,
            "by": "ann",
        },
    ),
    "Table.save_schema": (lambda w: w.table.save_schema, {"path": "s.toml", "overwrite": True}),
    "Schema.load": (lambda _: sf.Schema.load, {"path": "people.toml"}),
    "Schema.save": (lambda _: SCHEMA.save, {"path": "t.toml", "overwrite": True}),
    "Schema.column": (lambda _: SCHEMA.column, {"name": "age"}),
    "Schema.by_role": (lambda _: SCHEMA.by_role, {"role": "quasi"}),
    "Private.query": (
        lambda w: w.private.query,
        {"asked": COUNT, "epsilon": 0.01, "rho": None, "delta": 1e-7}
        | {"weights": None, "request_id": None},
    ),
    "Private.explain": (
        lambda w: w.private.explain,
        {"asked": COUNT, "epsilon": 0.01, "rho": None, "delta": 1e-7, "weights": None},
    ),
    "Private.publish": (
        lambda w: w.private.publish,
        {"kind": "histogram", **HISTOGRAM, "workload": None, "postprocess": ()}
        | {"request_id": None, "rho": None, "delta": 0},
    ),
    "Private.plan": (lambda w: w.private.plan, {"kind": "histogram", **HISTOGRAM}),
    "Private.publish_planned": (
        lambda w: w.private.publish_planned,
        {"publication": None, "request_id": None},
    ),
    "Private.above": (lambda w: w.private.above, {**ABOVE, "at_most": 1, "request_id": None}),
    "Private.synthesize": (lambda w: w.private.synthesize, {**SYNTHESIS, "request_id": None}),
    "Private.plan_synthesis": (lambda w: w.private.plan_synthesis, SYNTHESIS),
    "Private.learn": (
        lambda w: w.private.learn,
        {"kind": "kmeans", "features": ["age"], "target": None, "epsilon": 0.01, "rho": None}
        | {"delta": 0, "request_id": None, "clusters": 2},
    ),
    "Private.stream": (
        lambda w: w.private.stream,
        {"method": "tree", "periods": 4, "window": None, "days": 1, "by": None}
        | {"epsilon": 0.01, "rho": None, "delta": 0},
    ),
    "Private.run": (
        lambda w: _planned_program(w.private),
        {"program": _rows, "output": [(0, 9)], "epsilon": 0.01}
        | {"function": None, "blocks": 9, "people": None, "repeats": 1, "aggregate": "mean"}
        | {"ranges": "tight", "helper": None, "columns": "age", "seconds": 1, "language": None},
    ),
    "Vault.synthesize": (
        lambda w: w.vault.synthesize,
        {"name": "people", **SYNTHESIS, "principal": "owner", "purpose": None, "request_id": None},
    ),
    "Synthesized.query": (lambda w: w.twin.query, {"sql": COUNT}),
    "Synthesized.save": (
        lambda w: w.twin.save,
        {"path": "t.csv", "overwrite": True, "report": None, "model": "t.arrow"},
    ),
    "SynthesisModel.draw": (lambda w: w.twin.model.draw, {"rows": 3, "given": {"city": "a"}}),
    "SynthesisModel.write": (
        lambda w: w.twin.model.write,
        {"path": "t.parquet", "rows": 3, "given": None, "overwrite": True},
    ),
    "SynthesisModel.marginal": (lambda w: w.twin.model.marginal, {"columns": ["age"]}),
    "SynthesisModel.save": (lambda w: w.twin.model.save, {"path": "m.arrow", "overwrite": True}),
    "SynthesisModel.load": (lambda _: sf.SynthesisModel.load, {"path": "m.arrow"}),
    "SynthesisModel.load_linked": (
        lambda _: sf.SynthesisModel.load_linked,
        {"path": "m.arrow"},
    ),
    "Vault.query": (
        lambda w: w.vault.query,
        {"asked": COUNT, "principal": "owner", "purpose": None, "epsilon": 0.01},
    ),
    "Vault.explain": (lambda w: w.vault.explain, {"asked": COUNT, "principal": "owner"}),
    "Vault.questions": (lambda w: w.vault.questions, {"principal": "owner", "purpose": None}),
    "Vault.private": (
        lambda w: w.vault.private,
        {"name": "people", "principal": "owner", "purpose": None},
    ),
    "Vault.publish": (
        lambda w: w.vault.publish,
        {"kind": "histogram", "name": "people", **HISTOGRAM, "principal": "owner"}
        | {"purpose": None, "request_id": None},
    ),
    "Vault.plan": (
        lambda w: w.vault.plan,
        {"kind": "histogram", "name": "people", **HISTOGRAM, "principal": "owner"},
    ),
    "Vault.add": (
        lambda w: w.vault.add,
        {
            "name": "more",
            "source": "people.parquet",
            "schema": "people.toml",
            "unit": "row",
            "max_rows": None,
            "max_groups": None,
            "epsilon": 1,
            "delta": 0,
            "population": None,
            "consent": None,
            "purposes": None,
            "public": False,
            "unique": (),
        },
    ),
    "Vault.consent": (lambda w: w.vault.consent, {"population": None}),
    "Vault.purposes": (lambda w: w.vault.purposes, {"name": "people"}),
    "Vault.accounts": (lambda w: w.vault.accounts, {"principal": "owner"}),
    "Vault.raise_snapshot": (lambda w: w.vault.raise_snapshot, {"to": None}),
    "Vault.limit": (
        lambda w: w.vault.limit,
        {"account": "people", "epsilon": 9, "delta": 0, "operator": "ann"},
    ),
    "Vault.acknowledge": (
        lambda _: sf.Vault.acknowledge,
        {"path": "no-vault", "operator": "ann"},
    ),
    "Vault.export": (lambda w: w.vault.export, {"path": "l.jsonl", "overwrite": True}),
    "Principals.add": (
        lambda w: w.vault.people.add,
        {"name": "eve", "kind": "external", "operator": "ann", **GRANT, "shapes": None}
        | {"min_epsilon": None, "max_epsilon": None, "expires": "90d"},
    ),
    "Principals.grant": (
        lambda w: w.vault.people.grant,
        {"name": "bob", "operator": "ann", **GRANT},
    ),
    "Principals.lower": (
        lambda w: w.vault.people.lower,
        {"name": "bob", "operator": "ann", **GRANT},
    ),
    "Principals.move": (
        lambda w: w.vault.people.move,
        {"name": "bob", "to": "zoe", "operator": "ann", **GRANT},
    ),
    "Principals.expire": (
        lambda w: w.vault.people.expire,
        {"name": "bob", "at": "90d", "operator": "ann"},
    ),
    "Principals.change": (
        lambda w: w.vault.people.change,
        {"name": "bob", "operator": "ann", "kind": None, "shapes": None}
        | {"min_epsilon": None, "max_epsilon": None},
    ),
    "Principals.get": (lambda w: w.vault.people.get, {"name": "bob"}),
    "Principals.balances": (lambda w: w.vault.people.balances, {"name": "bob"}),
    "Tokens.new": (
        lambda w: w.vault.tokens.new,
        {"principal": "bob", "operator": "ann", "scopes": None, "expires": "90d"},
    ),
    "Tokens.revoke": (lambda w: w.vault.tokens.revoke, {"token": "none", "operator": "ann"}),
    "Programs.approve": (
        lambda w: w.vault.programs.approve,
        {"program": _rows, "operator": "ann", "function": None, "helper": None},
    ),
    "Programs.revoke": (lambda w: w.vault.programs.revoke, {"digest": "none", "operator": "ann"}),
    "ConsentRegistry.give": (
        lambda w: w.vault.consent().give,
        {"person": 1, "purpose": "care", "time": None, "operator": "ann"},
    ),
    "ConsentRegistry.withdraw": (
        lambda w: w.vault.consent().withdraw,
        {"person": 1, "purpose": "care", "time": None, "operator": "ann"},
    ),
    "ConsentRegistry.change": (
        lambda w: w.vault.consent().change,
        {"changes": [(1, "care", True, None)], "operator": "ann"},
    ),
    "ConsentRegistry.import_file": (
        lambda w: w.vault.consent().import_file,
        {"path": "none.csv", "operator": "ann"},
    ),
    "ConsentRegistry.export": (
        lambda w: w.vault.consent().export,
        {"path": "said.csv", "overwrite": True},
    ),
    "ConsentRegistry.show": (lambda w: w.vault.consent().show, {"person": 1}),
    "Jobs.submit": (
        lambda w: w.vault.jobs.submit,
        {"family": "publish", "dataset": "people", "principal": "owner", "purpose": None}
        | {"request_id": "r", "plan": None},
    ),
    "Jobs.get": (lambda w: w.vault.jobs.get, OF_JOB),
    "Jobs.look_up": (lambda w: w.vault.jobs.look_up, OF_JOB),
    "Jobs.cancel": (lambda w: w.vault.jobs.cancel, OF_JOB),
    "Jobs.list": (lambda w: w.vault.jobs.list, {"principal": "owner", "limit": 9}),
    "Jobs.wait": (
        lambda w: w.vault.jobs.wait,
        {"job": "none", "principal": "owner", "seconds": 0},
    ),
    "Jobs.start": (lambda w: w.vault.jobs.start, {"workers": -1}),
    "Jobs.stop": (lambda w: w.vault.jobs.stop, {"seconds": 0}),
    "Releases.get": (lambda w: w.vault.releases.get, OF_RELEASE),
    "Releases.look_up": (lambda w: w.vault.releases.look_up, OF_RELEASE),
    "Releases.list": (lambda w: w.vault.releases.list, {"principal": "owner"}),
    "Releases.open_to": (
        lambda w: w.vault.releases.open_to,
        {"release": "none", "to": "public", "operator": "ann"},
    ),
    "Releases.shut": (
        lambda w: w.vault.releases.shut,
        {"release": "none", "operator": "ann"},
    ),
    "Release.save": (lambda w: w.answer.save, {"path": "a.csv", "overwrite": True}),
    "Release.report": (
        lambda w: w.answer.report,
        {"path": "a.html", "public": False, "overwrite": True},
    ),
    "Release.to_pandas": (lambda w: w.answer.to_pandas, {"table": "answer"}),
    "Release.to_polars": (lambda w: w.answer.to_polars, {"table": "answer"}),
    "Release.load": (lambda _: sf.Release.load, {"path": "a.csv"}),
    "Published.ranges": (lambda w: w.map.ranges, {"queries": [[[1, 2], [1, 2]]]}),
    "Published.ranges_stddev": (lambda w: w.map.ranges_stddev, {"queries": [[[1, 2], [1, 2]]]}),
    "Published.ranges_unevenness": (
        lambda w: w.map.ranges_unevenness,
        {"queries": [[[1, 2], [1, 2]]]},
    ),
    "Published.nearest": (lambda w: w.map.nearest, {"point": [1, 1], "k": 5}),
    "Column": (
        lambda _: sf.Column,
        {"name": "a", "kind": "text", "role": "quasi", "domain": None, "hierarchy": None}
        | {"nullable": True, "length": None},
    ),
    "Schema": (
        lambda _: sf.Schema,
        {"table": "t", "columns": SCHEMA.columns, "unit": sf.Rows()},
    ),
    "Values": (lambda _: sf.Values, {"values": [1, 2]}),
    "Bounds": (lambda _: sf.Bounds, {"low": 0, "high": 5, "step": None}),
    "Mask": (lambda _: sf.Mask, {"side": "left"}),
    "Widths": (lambda _: sf.Widths, {"widths": [5]}),
    "Calendar": (lambda _: sf.Calendar, {"steps": ["year"]}),
    "Tree.of": (lambda _: sf.Tree.of, {"groups": {"a": ["b"]}}),
    "Tree.read": (lambda _: sf.Tree.read, {"path": "none.csv", "kind": "text"}),
    "Entity": (lambda _: sf.Entity, {"column": "a", "max_rows": 2, "max_groups": 1}),
    "KAnonymity": (lambda _: sf.KAnonymity, {"k": 2}),
    "EntropyDiversity": (lambda _: sf.EntropyDiversity, {"l": 2, "of": "a"}),
    "TCloseness": (lambda _: sf.TCloseness, {"t": 0.2, "of": "a", "distance": "equal"}),
    "noise.discrete_laplace": (lambda _: sf.noise.discrete_laplace, {"scale": 1, "size": 1}),
    "noise.discrete_gaussian": (lambda _: sf.noise.discrete_gaussian, {"stddev": 1, "size": 1}),
}


def _planned_program(private: sf.Private) -> Callable[..., object]:
    """What `run` and `dry_run` do first; what passes it is right, and would cost a sandbox each."""

    def planned(*, program: Any, function: Any, **asked: Any) -> object:
        text, name, _ = text_of(program, function)
        return private.prepare(FAMILIES["run"], program=text, function=name, **asked)

    return planned


def _built() -> BuiltQuestion:
    return sf.table("people").aggregate(n="COUNT(*)")


def _called(method: Any, arguments: dict[str, Any]) -> object:
    """Call a method by names, but for what it takes as many positional or named ones."""
    kinds = {name: one.kind for name, one in inspect.signature(method).parameters.items()}
    listed = [value for name, value in arguments.items() if _kind(kinds, name) == "*"]
    named = {
        "n" if _kind(kinds, name) == "**" else name: value
        for name, value in arguments.items()
        if _kind(kinds, name) != "*"
    }
    return method(*listed, **named)


def _kind(kinds: dict[str, Any], name: str) -> str:
    stars: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*"}
    stars[inspect.Parameter.VAR_KEYWORD] = "**"
    return stars.get(kinds.get(name), "")


@pytest.mark.parametrize("most", [3, pytest.param(len(BAD), marks=pytest.mark.slow)])
@pytest.mark.parametrize("call", CALLS)
def test_wrong_values_are_refused_in_words(
    call: str, most: int, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each argument a few wrong values are thrown, by turns; the slow cases throw all."""
    monkeypatch.chdir(tmp_path)
    find, right = CALLS[call]
    method = find(world)
    found = {
        f"{name} = {type(wrong).__name__}": words
        for turn, name in enumerate(right)
        for wrong in (BAD * 2)[turn % len(BAD) :][:most]
        if (words := _fault(method, {**right, name: wrong})) is not None
    }
    assert found == {}


def _fault(method: Any, arguments: dict[str, Any]) -> str | None:
    """What is wrong with how a call ends: it may succeed, or be refused in one plain line."""
    try:
        _called(method, arguments)
    except sf.SfumatoError as error:
        told = error.message
        ours = error.exit_code == 1 or "\n" in told or "object at 0x" in told
        return f"{error.code}: {told}" if ours else None
    except Exception as error:  # noqa: BLE001  whatever else comes is what is looked for
        return f"{type(error).__name__}: {error}"
    return None


def public_calls() -> set[str]:
    """Every public method, of what people hold, that takes something."""
    found = {
        name
        for name in ("read", "protect", "open", "init", "table")
        if inspect.signature(getattr(sf, name)).parameters
    }
    made = (sf.Release, Published, Synthesized, sf.SynthesisModel)
    kept = (Principals, Tokens, ConsentRegistry, Jobs, Releases)
    for kind in (sf.Table, sf.Schema, sf.Private, sf.Vault, *kept, *made, Frame, Grouped):
        for name, method in inspect.getmembers(kind, callable):
            if name.startswith("_") or not _takes(method):
                continue
            found.add(f"{kind.__name__}.{name}")
    return found


def _takes(method: Any) -> bool:
    return bool(set(inspect.signature(method).parameters) - {"self"})


def test_every_public_method_is_thrown_at() -> None:
    covered = {
        *CALLS,
        # Inherited, or the same under another name.
        *("Published.save", "Published.report", "Published.load", "Grouped.aggregate"),
        *("Published.to_pandas", "Published.to_polars", "Synthesized.report", "Synthesized.load"),
        *("Synthesized.to_pandas", "Synthesized.to_polars", "SynthesisModel.unpacked"),
        "Private.dry_run",
        # The doors of commands, which make these of their own words.
        *("Private.prepare", "Private.answer", "Published.to_json", "Synthesized.to_json"),
        *("Vault.asker", "Jobs.get_of_anyone", "Jobs.list_done"),
        *("Releases.read", "Releases.answer"),
        *("Private.check_all", "Private.left_after", "Private.owners_rows"),
    }
    assert public_calls() - covered == set()
