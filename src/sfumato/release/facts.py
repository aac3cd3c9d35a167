"""What is known of a release by name, as a table that people read.

What is nothing has no line, and marks for programs are left to the side-car.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sfumato.report.blocks import PageTable
from sfumato.report.value_text import SHARES, VERBATIM, figure_name, show, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.release.release import Provenance, Release
    from sfumato.report.blocks import Block

COSTS = {
    "loss": "loss: mean share of the hierarchy that a label covers",
    "loss_geometric": "loss, geometric mean over columns",
    "discernability": "discernability: rows that look alike, counted in pairs",
    "average_class_size": "average class size, in multiples of k",
    "c_avg": "C_AVG: released rows per class, in multiples of k",
    "precision": "precision: mean share of the steps up the hierarchies",
    "entropy": "entropy: bits lost",
    "suppressed": "suppressed rows",
}
"""The costs in words; less is better of each."""
_HASH = re.compile(r"[0-9a-f]{32,}")
_SHARES = {"suppress"}
_TOLD_BEFORE = {"columns", "unit"}
_FOR_PROGRAMS = {"plan", "all"}
"""Of a question: how it is run, and the rows that are totals."""
_ASKED = {
    "suppress": "most rows that may be suppressed",
    "suppressed": "rows that stand out too much",
    "cost": "cost to minimise",
    "version": "version of Sfumato",
    "unit": "what is hidden",
}
"""What was asked, as people say it."""
_SUPPRESSED = {"drop": "left out", "star": "blank"}


def pairs(caption: str, facts: Mapping[str, Any], *, theirs: bool = False) -> PageTable:
    """What is known, by name; what is nothing, and marks for programs, have no line.

    Names that are `theirs` were given by the user, and are shown as they are.
    """
    rows = [
        (name, value_text(value)) if theirs else (_title(name, value), _value(name, value))
        for name, value in facts.items()
        if not _is_nothing(value)
    ]
    return PageTable(caption, ("What", "Value"), rows)


def _title(name: str, value: Any) -> str:
    if name == "cost" and isinstance(value, dict):  # of a private release: what it has spent
        return "budget spent"
    return _ASKED.get(name, figure_name(name))


def _is_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_nothing, value.values()))
    empty = value is None or value is False or (not isinstance(value, int | float) and not value)
    return empty or (isinstance(value, str) and _HASH.fullmatch(value) is not None)


def _value(name: str, value: Any) -> str:
    if value is True:
        return "yes"
    if name in SHARES and value is not None:
        return show(value, percent=True)
    if name in _SHARES and isinstance(value, str) and "/" not in value:
        return show(float(value), percent=True)
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if not _is_nothing(one)}
    text = value_text(value, verbatim=name in VERBATIM)
    return _SUPPRESSED.get(text, text) if name == "suppressed" else text


def about(provenance: Provenance, facts: Mapping[str, Any]) -> list[Block]:
    """What it is, when it was made and by whom, at a glance."""
    said = {**facts, "date": provenance.made, "made by": provenance.by}
    return [pairs("About this release", said)] if any(said.values()) else []


def asked(release: Release) -> PageTable:
    """How it was made, so that it can be made again."""
    provenance, left = release.provenance, _TOLD_BEFORE | _FOR_PROGRAMS
    facts = {
        "algorithm": provenance.method.removeprefix("publish "),
        **{name: one for name, one in provenance.parameters.items() if name not in left},
        "version": provenance.version,
    }
    return pairs("What was asked", facts)
