"""A release as a page for people: what is guaranteed, what it cost, where it came from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.report import charts
from sfumato.report.blocks import Heading, KeyFigures, Note, PageTable, Paragraph
from sfumato.report.page import render
from sfumato.report.published import pictures
from sfumato.report.terminal import in_words, named

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.release.release import Guarantee, Provenance, Release
    from sfumato.report.blocks import Block

_COSTS = {
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
_SHOWN_ELSEWHERE = {"released", "classes", "criteria", "unprotected", "notes"}
_PARTS = {"before", "ncp"}
_PRIVATE = "differential privacy"
_FOR_ALL = "All that stands on this page was released: it may be shown to anyone."
_FOR_THE_HOLDER = (
    "This page stays with its holder: it tells of rows that were not released. Send the one that "
    "--public-report writes instead."
)
_FOR_RECEIVERS = (
    "This page may travel with the release: it tells nothing but what was released and what is "
    "public."
)


def page(release: Release, sample: Mapping[str, Any] | None = None) -> str:
    """The whole page; the tables of a private release are drawn, if it has any.

    It says on its face to whom it may be shown.
    """
    guarantee, provenance = release.guarantee, release.provenance
    costs = release.error or {}
    blocks = _guarantee(guarantee)
    lead, audience = guarantee.statement, _FOR_RECEIVERS
    if guarantee.kind == _PRIVATE:
        lead, audience = f"{_PRIVATE.capitalize()}, {lead}", _FOR_ALL
        blocks += [Heading("How far off it is"), _pairs("Expected error", costs)]
        if release.tables and "columns" in provenance.parameters:
            blocks += pictures(provenance.parameters["columns"], release.tables, release.error)
    elif release.holder is None:
        blocks = [Note(audience), *blocks]
    else:
        audience = _FOR_THE_HOLDER
        blocks = [Note(audience, warning=True), *blocks, *_kept(release.holder, costs)]
    return render(
        "Release report" if audience is not _FOR_THE_HOLDER else "Release report for the holder",
        [*blocks, *_provenance(provenance)],
        lead=lead,
        footer=f"Made by Sfumato {provenance.version}. {audience}",
    )


def _guarantee(guarantee: Guarantee) -> list[Block]:
    """The promise in figures, and what it does not cover."""
    facts = guarantee.parameters
    blocks: list[Block] = [Heading("What is guaranteed")]
    counted = _counted(facts, _FIGURES)
    if counted:
        blocks.append(KeyFigures(counted))
    if facts.get("criteria"):
        rows = [(criterion,) for criterion in facts["criteria"]]
        blocks.append(PageTable("What every released class satisfies", ("Criterion",), rows))
    others = {name: value for name, value in facts.items() if name not in _SHOWN_ELSEWHERE}
    if others:
        blocks.append(_pairs("Parameters of the guarantee", others))
    if facts.get("unprotected"):
        names = ", ".join(facts["unprotected"])
        text = f"Released unchanged and not protected by any criterion: {names}."
        blocks.append(Note(text, warning=True))
    return [*blocks, *(Note(text) for text in facts.get("notes", ()))]


_FIGURES = {
    "released": "rows released",
    "classes": "classes of rows that look alike",
}
_KEPT_FIGURES = {
    "rows": "rows in the original",
    "suppressed": "rows suppressed",
    "lattice": "ways to generalize",
    "checked": "of them examined",
}


def _kept(holder: Mapping[str, Any], costs: Mapping[str, Any]) -> list[Block]:
    """What only the holder may see: who is exposed, what is gone, what it cost."""
    facts = holder.get("figures", {})
    blocks: list[Block] = [Heading("What only the holder sees")]
    blocks += [Note(text, warning=True) for text in holder.get("findings", ())]
    counted = _counted(facts, _KEPT_FIGURES)
    if counted:
        blocks.append(KeyFigures(counted))
    blocks += [Note(text) for text in holder.get("remarks", ())]
    return [*blocks, *_costs(costs), *_columns(facts, holder.get("reference", {}), costs)]


def _counted(facts: Mapping[str, Any], names: Mapping[str, str]) -> list[tuple[str, str]]:
    return [
        (f"{facts[name]:,}", what)
        for name, what in names.items()
        if isinstance(facts.get(name), int)
    ]


def _costs(error: Mapping[str, Any]) -> list[Block]:
    """Every cost, before and after where both are known."""
    before = error.get("before", {})
    after = {name: value for name, value in error.items() if name not in _PARTS}
    if not after:
        return []
    rows = [
        (_COSTS.get(name, name), in_words(before.get(name)), in_words(value))
        for name, value in after.items()
    ]
    if before:
        table = PageTable("Costs; of each, less is better", ("Cost", "Before", "After"), rows)
    else:
        pairs = [(name, value) for name, _, value in rows]
        table = PageTable("Costs; of each, less is better", ("Cost", "Value"), pairs)
    blocks: list[Block] = [Heading("What it cost"), table]
    if "classes" in before:
        text = f"Before, the rows fell into {before['classes']:,} classes."
        blocks.append(Paragraph(text))
    return blocks


def _columns(
    facts: Mapping[str, Any], reference: Mapping[str, Any], error: Mapping[str, Any]
) -> list[Block]:
    """How much each column lost, and what the classes were compared with."""
    blocks: list[Block] = []
    lost = error.get("ncp")
    if lost:
        blocks.append(
            charts.bar(
                list(lost.items()),
                label="Information lost in each column, as a share of its hierarchy",
                what="Column",
                value="Loss",
                percent=True,
            )
        )
    if facts.get("levels"):
        rows = list(facts["levels"].items())
        blocks.append(PageTable("Levels of generalization", ("Column", "Level"), rows))
    for name, counts in reference.items():
        rows = [(in_words(value), count) for value, count in counts]
        caption = f"The distribution of {name} in the original, which classes are compared with"
        blocks.append(PageTable(caption, ("Value", "Rows"), rows, folded=True))
    return [Heading("Column by column"), *blocks] if blocks else []


def _provenance(provenance: Provenance) -> list[Block]:
    facts = {
        "method": provenance.method,
        **provenance.parameters,
        **({"fingerprint": provenance.fingerprint} if provenance.fingerprint else {}),
        "version": provenance.version,
    }
    return [Heading("Where it comes from"), _pairs("Provenance", facts)]


def _pairs(caption: str, facts: Mapping[str, Any]) -> PageTable:
    rows = [(named(name), in_words(value)) for name, value in facts.items()]
    return PageTable(caption, ("What", "Value"), rows)
