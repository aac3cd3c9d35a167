"""Every registered method, with what is asked of it and the tables it is asked of.

`registered` reads the registries themselves; `METHODS` says how each is run. A method that is
registered and is not here fails `test_registry.py`: it has no neighbours to be run on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from tests.registry import forms

from sfumato.methods.graph.synthesize import METHODS as GRAPHS
from sfumato.methods.learn.catalogue import KINDS as MODELS
from sfumato.methods.programs.catalogue import HOW, RANGES
from sfumato.methods.publish.catalogue import KINDS as PUBLICATIONS
from sfumato.methods.query.plan import Function
from sfumato.methods.stream.catalogue import METHODS as STREAMS
from sfumato.methods.synth.methods import FORMS, METHOD_WORDS
from sfumato.methods.trajectory.synthesize import METHODS as PATHS
from sfumato.vault.families import FAMILIES
from sfumato.vault.streams import plan_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from tests.registry.coupling import Result
    from tests.registry.tables import Form

EPSILON, DELTA = 4, "0.0001"
PRICES: dict[str, dict[str, Any]] = {
    "pure": {"epsilon": EPSILON},
    "approximate": {"epsilon": EPSILON, "delta": DELTA},
    "concentrated": {"rho": "1/2", "delta": DELTA},
}


@dataclass(frozen=True)
class Source:
    """A protected table, the rows it holds, which a stream is fed with, and the ledger."""

    private: Any
    tables: Mapping[str, pa.Table]
    unit: Any
    ledger: Any
    feed: Callable[[pa.Table], AbstractContextManager[Any]]
    """Holds the rows of a step where the engine reads them."""


@dataclass(frozen=True)
class Method:
    """A registered method, one way to ask it, and the form of the tables that it is asked of."""

    family: str
    name: str
    form: Form
    prepare: Callable[[Source, Mapping[str, Any]], Any]
    """Plan it from public facts; what is refused here is refused for every table."""
    answer: Callable[[Source, Any], Result]
    variant: str = ""
    prices: tuple[str, ...] = ("pure", "approximate", "concentrated")
    slow: bool = False
    """Whether one run takes so long that the fast set has few cells of it, or none."""

    @property
    def title(self) -> str:
        return " ".join(filter(None, (self.family, self.name, self.variant)))


def registered() -> set[tuple[str, str]]:
    """Every method that a registry names, by its family."""
    found = {("query", one.name) for one in Function}
    found |= {("publish", one) for one in PUBLICATIONS}
    found |= {("learn", one) for one in MODELS}
    found |= {("synthesize", one) for one in METHOD_WORDS}
    found |= {("synthesize", one) for one in FORMS}
    found |= {("synthesize graph", one) for one in GRAPHS}
    found |= {("synthesize paths", one) for one in PATHS}
    found |= {("stream", one) for one in STREAMS}
    found |= {("run", f"{how} {ranges}") for how in HOW for ranges in RANGES}
    return found | {(family, "") for family in FAMILIES if family not in ("query", "publish",
              "synthesize", "learn", "run")}  # fmt: skip


def _asked(
    family: str, name: str, form: Form, *positional: Any, variant: str = "",
    prices: tuple[str, ...] = ("pure", "approximate", "concentrated"), slow: bool = False,
    of: str | None = None, **options: Any,
) -> Method:  # fmt: skip
    """A method of a family that is planned and answered like all others."""
    called = FAMILIES[of or family]
    first = {"query": "asked", "run": "program"}.get(called.name, "kind")
    named = dict(zip([first], positional, strict=False))

    def prepare(source: Source, cost: Mapping[str, Any]) -> Any:
        offered = {name: one for name, one in cost.items() if name in called.cost}
        return source.private.prepare(called, **named, **options, **offered)

    def answer(source: Source, prepared: Any) -> Result:
        return prepared.event, dict(source.private.answer(called, prepared).tables)

    return Method(family, name, form, prepare, answer, variant, prices, slow)


# Questions: each aggregate, each kind of key

_SHAPES: dict[str, tuple[str, ...]] = {
    "COUNT": ("SELECT COUNT(*) AS n, COUNT(x) AS k FROM people",
              "SELECT c, b, COUNT(*) AS n FROM people GROUP BY ROLLUP (c, b)",
              "SELECT t, COUNT(*) AS n FROM people GROUP BY t",
              "SELECT x, COUNT(*) AS n FROM people GROUP BY x",
              "SELECT d, COUNT(*) AS n FROM people GROUP BY d",
              "SELECT COUNT_IF(x > 3 AND t LIKE 'o%') AS n FROM people WHERE r > 1"),
    "COUNT_PEOPLE": ("SELECT COUNT(DISTINCT person) AS n FROM people",
                     "SELECT b, COUNT(DISTINCT person) AS n FROM people GROUP BY b",
                     "SELECT t, COUNT(DISTINCT person) AS n FROM people GROUP BY t"),
    "COUNT_DISTINCT": ("SELECT COUNT(DISTINCT far) AS n FROM people",
                       "SELECT c, COUNT(DISTINCT far) AS n FROM people GROUP BY c"),
    "SUM": ("SELECT SUM(x) AS s FROM people", "SELECT c, SUM(r) AS s FROM people GROUP BY c",
            "SELECT t, SUM(y) AS s FROM people GROUP BY t",
            "SELECT SUM(x * y - 3) AS s FROM people WHERE b"),
    "AVERAGE": ("SELECT AVG(r) AS m FROM people", "SELECT b, AVG(x) AS m FROM people GROUP BY b"),
    "VARIANCE": ("SELECT VARIANCE(x) AS v FROM people",),
    "STDDEV": ("SELECT c, STDDEV(r) AS v FROM people GROUP BY c",),
    "QUANTILE": ("SELECT MEDIAN(x) AS m FROM people", "SELECT MIN(r) AS a, MAX(r) AS z FROM people",
                 "SELECT c, QUANTILE(y, 0.25) AS q FROM people GROUP BY c"),
}  # fmt: skip


def _questions() -> list[Method]:
    return [
        _asked("query", name, forms.PEOPLE, sql, variant=str(place) if place else "",
               prices=("approximate",) if "BY t" in sql else PRICE_NAMES)
        for name, shapes in _SHAPES.items()
        for place, sql in enumerate(shapes)
    ]  # fmt: skip


PRICE_NAMES = tuple(PRICES)

# Publications

_ONE, _TWO = {"columns": ["x"]}, {"columns": ["x", "y"]}
_RANGES = [[[0, 3]], [[2, 9]], [[5, 15]]]
_PUBLISHED: dict[str, tuple[dict[str, Any], ...]] = {
    "auto": (_ONE, {**_TWO, "postprocess": ["nonnegative"]}, {**_ONE, "workload": _RANGES}),
    "histogram": ({"columns": ["c", "b"]}, {"columns": ["d"]},
                  {**_ONE, "noise": "truncated-geometric", "most": 100}),
    "marginals": ({"columns": ["c", "b", "y"]}, {"columns": ["x", "y", "c"], "way": 1}),
    "tree": (_ONE, {**_TWO, "budget": "uniform"}),
    "wavelet": (_ONE, _TWO),
    "fourier": (_ONE, {"columns": ["c", "b"]}),
    "quadtree": (_TWO, {**_TWO, "height": 2}),
    "kdtree": ({**_TWO, "height": 3}, {**_TWO, "prune": 0, "height": 2}),
    "hybrid": ({**_TWO, "height": 3},),
    "privtree": (_TWO,),
    "adaptive-grid": (_TWO, {**_TWO, "grid": 2}),
    "sparse": (_TWO, {**_TWO, "method": "filter"}, {**_TWO, "method": "priority", "size": 20}),
    "mwem": ({**_ONE, "iterations": 3}, {**_ONE, "iterations": 2, "selection": "sparse-vector"}),
    "dawa": (_ONE,),
    "quantiles": ({**_ONE, "ranks": [0.25, 0.5, 0.75]},
                  {"columns": ["y"], "mechanism": "smooth", "rows": 120}),
    "continual": ({"columns": ["d"]}, {**_ONE, "method": "tree"}),
    "sketch": ({**_TWO, "width": 16, "depth": 3},),
    "above": ({**_ONE, "workload": _RANGES, "threshold": 20},
              {**_ONE, "workload": _RANGES, "threshold": 9, "at_most": 2}),
    "triangles": ({}, {"mechanism": "smooth"}),
    "stars": ({}, {"k": 3}),
    "cliques": ({}, {"k": 3}),
    "degrees": ({"nodes": 16},),
    "joint-degrees": ({"most": 5},),
    "node-degrees": ({},),
    "items": ({},),
    "itemsets": ({},),
    "frequent": ({"k": 5, "size": 2},),
    "search-log": ({},),
    "ratings": ({},),
    "trips": ({"cells": 3, "trips": 2},),
    "visits": ({"cells": 4},),
    "lengths": ({},),
}  # fmt: skip
_GRAPH_FORMS = {"node-degrees": (forms.HUBS,)}


def _forms_of(kind: str, form: str) -> tuple[Form, ...]:
    if form == "items":
        return (forms.SHOP, forms.CATALOGUE, *((forms.WIDE,) if kind == "ratings" else ()))
    usual = {"rows": (forms.PEOPLE,), "edges": (forms.FRIENDS,), "points": (forms.TRIPS,)}
    return _GRAPH_FORMS.get(kind, usual[form])


def _publications() -> list[Method]:
    return [
        _asked("publish", kind, form, kind, variant=_variant(place, form),
               prices=("approximate", "concentrated") if form is forms.SHOP else PRICE_NAMES,
               slow=kind == "auto" and place > 0, **options)
        for kind, asked in _PUBLISHED.items()
        for form in _forms_of(kind, PUBLICATIONS[kind].form)
        for place, options in enumerate(asked)
    ]  # fmt: skip


def _variant(place: int, form: Form) -> str:
    shown = "" if form in (forms.PEOPLE, forms.FRIENDS, forms.TRIPS, forms.SHOP) else form.name
    return " ".join(filter(None, (shown, str(place) if place else "")))


# Models

_FEATURES = {"features": ["x", "c"]}
_LEARNT: dict[str, tuple[dict[str, Any], ...]] = {
    "linear": ({**_FEATURES, "target": "r"},),
    "ridge": ({**_FEATURES, "target": "r"},),
    "logistic": ({**_FEATURES, "target": "b"}, {**_FEATURES, "target": "b", "size": 100_000},
                 {**_FEATURES, "target": "b", "solver": "newton", "class_weight": "balanced"}),
    "naive-bayes": ({**_FEATURES, "target": "b"},),
    "tree": ({**_FEATURES, "target": "b", "growth": "greedy", "depth": 2},
             {**_FEATURES, "target": "b", "growth": "stump"},
             {**_FEATURES, "target": "b", "growth": "random", "depth": 2}),
    "forest": ({**_FEATURES, "target": "b", "trees": 2, "depth": 2},),
    "perceptron": ({**_FEATURES, "target": "b", "rounds": 3},),
    "kmeans": ({"features": ["x", "y"], "clusters": 2, "rounds": 2},),
    "pca": ({"features": ["x", "y", "r"]},),
    "covariance": ({"features": ["x", "y"]},),
    "rules": ({"features": ["b", "c"], "k": 5},),
}  # fmt: skip


def _models() -> list[Method]:
    found = [
        _asked("learn", kind, forms.PEOPLE, kind, variant=str(place) if place else "", **options)
        for kind, asked in _LEARNT.items()
        for place, options in enumerate(asked)
    ]
    items: dict[str, Any] = {"variant": "items", "prices": ("approximate",), "k": 5, "size": 2}
    return [*found, _asked("learn", "rules", forms.SHOP, "rules", **items)]


# Synthetic data


def _syntheses() -> list[Method]:
    columns = ["x", "y", "c"]
    shared: dict[str, Any] = {"rows": 20}
    asked: dict[str, dict[str, Any]] = {one: {"method": one} for one in METHOD_WORDS}
    asked["workload"]["workload"] = [["x", "y"], ["c"]]
    found = [
        _asked("synthesize", name, forms.PEOPLE, columns=columns, slow=True, **options, **shared)
        for name, options in asked.items()
    ]
    open_text: dict[str, Any] = {"columns": ["c", "t"], "variant": "open text"}
    found += [
        _asked("synthesize", "independent", forms.PEOPLE, method="independent",
               prices=("approximate",), **open_text, **shared),
        _asked("synthesize", "mst", forms.PEOPLE, method="mst", columns=["far", "born"],
               quantiles=["far"], weekdays=["born"], variant="quantiles", slow=True, **shared),
        _asked("synthesize", "mst", forms.PEOPLE, method="mst", columns=["far", "born", "c"],
               variant="atoms", slow=True, **shared),
        _asked("synthesize", "independent", forms.PEOPLE, method="independent",
               columns=["far", "born"], variant="atoms", **shared),
        _asked("synthesize", "independent", forms.HOMES, method="independent", child="members",
               key="home", variant="linked", slow=True, rows=20),
        _asked("synthesize", "mst", forms.HOMES, method="mst", child="members", key="home",
               variant="linked", slow=True, rows=20),
        _asked("synthesize", "baskets", forms.SHOP, rows=20, prices=("approximate",)),
        _asked("synthesize", "baskets", forms.CATALOGUE, rows=20, variant="listed items"),
        _asked("synthesize", "baskets", forms.WIDE, rows=20, variant="wide ratings"),
        _asked("synthesize", "graph", forms.CLUBS, nodes=14, people="people", prices=("pure",)),
        _asked("synthesize", "paths", forms.TRIPS, cells=9, rows=10, slow=True),
    ]  # fmt: skip
    found += [
        _asked("synthesize graph", name, forms.FRIENDS, of="synthesize", nodes=14, method=name,
               prices=("pure",))
        for name in GRAPHS
    ]  # fmt: skip
    return found + [
        _asked("synthesize paths", name, forms.TRIPS, of="synthesize", cells=9, rows=10,
               method=name, slow=True)
        for name in PATHS
    ]  # fmt: skip


# Streams and feeds

_STREAMED: dict[str, dict[str, Any]] = {
    "w-event": {"window": 2, "by": "c"},
    "histogram": {"by": "c"},
    "top": {"by": "c", "top": 1},
}


def _stream(name: str, variant: str = "", **asked: Any) -> Method:
    options = {"periods": forms.PERIODS, **asked}

    def prepare(source: Source, cost: Mapping[str, Any]) -> Any:
        private = source.private
        facts = private._session.facts(private._asker_of, private._dataset)
        return plan_stream("planned", facts, name, cost, options), cost

    def answer(source: Source, prepared: Any) -> Result:
        _, cost = prepared
        stream = source.private.stream(name, **options, **cost)
        table = source.tables["people"]
        steps = []
        for period in range(forms.PERIODS):
            with source.feed(table.filter(pc.equal(table["period"], period))) as came:
                steps.append(stream.step(came))
        return stream.plan.event, {str(one.number): one.table for one in steps}

    return Method("stream", name, forms.PEOPLE, prepare, answer, variant)


def _streams() -> list[Method]:
    found = [_stream(name, **_STREAMED.get(name, {})) for name in STREAMS]
    return [
        *found,
        _stream("auto", "window", window=2),
        _stream("auto", "days", days=2, by="c"),
        _stream("w-event", "distribution", window=2, plan="distribution"),
        _stream("top", "changes", by="c", top=1, changes=2),
    ]


# Programs

_PROGRAM = """
def measured(rows):
    values = [one for one in rows.column("x").to_pylist() if one is not None]
    return sum(values) / len(values) if values else 0.0

def helper(quartiles):
    return [(0, 15)]
"""


def _programs() -> list[Method]:
    return [
        _asked("run", f"{how} {ranges}", forms.PEOPLE, _PROGRAM, function="measured",
               output=[(0, 15)], blocks=2, seconds=0.2, columns=["x"], aggregate=how,
               ranges=ranges, prices=("pure",), slow=True,
               **({"helper": "helper"} if ranges == "helper" else {}))
        for how in HOW
        for ranges in RANGES
    ]  # fmt: skip


def _watch() -> Method:
    return _asked("above", "", forms.PEOPLE, columns=["x"], workload=_RANGES, threshold=20)


METHODS = (
    *_questions(), *_publications(), _watch(), *_models(), *_syntheses(), *_streams(),
    *_programs(),
)  # fmt: skip
