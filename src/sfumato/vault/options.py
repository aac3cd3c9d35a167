"""What may be said of a question, a publication or a synthesis besides what it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from sfumato.exact_numbers import Number


class QueryCost(TypedDict, total=False):
    """What a question may cost: a pure epsilon or a rho, a delta, and how figures share it."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    weights: Mapping[str, Number] | None


class QueryOptions(QueryCost, total=False):
    """What may be said of a question besides its words."""

    request_id: str | None


class SynthesisOptions(TypedDict, total=False):
    """What may be said of a synthesis."""

    epsilon: Number | None
    rho: Number | None
    delta: Number | None
    method: str
    rows: int | None
    columns: Sequence[str] | str | None
    quantiles: Sequence[str] | str
    weekdays: Sequence[str] | str
    target: str | None
    workload: Sequence[Sequence[str]] | str | Path | None
    child: str | None
    key: str | None
    form: str | None
    nodes: int | str | None
    people: str | None
    every: float
    cells: int
    hexagons: int
    trips: int
    steps: int


class ProgramOptions(TypedDict, total=False):
    """What may be said of a program on blocks besides what it is, gives and costs."""

    language: str | None
    blocks: int | None
    people: int | None
    repeats: int
    aggregate: str
    ranges: str
    helper: str | None
    columns: Sequence[str] | str | None
    seconds: Number
