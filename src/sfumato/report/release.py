"""A release as a page for people: what it is, what is guaranteed and what is not, how it was made.

It is written so that a data-protection officer can sign it and a layman can read it: numbers as
people write them, the words of the field explained where they stand, marks for programs left to
the side-car. Decision 0225.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from sfumato.inspection.uniqueness import SMALL
from sfumato.report import charts, numerals
from sfumato.report.attacks import findings_blocks
from sfumato.report.blocks import (
    Heading,
    KeyFigures,
    Listing,
    Note,
    PageTable,
    Paragraph,
    SignatureLines,
)
from sfumato.report.page import render
from sfumato.report.plain import decimals, glossary, limits, promises
from sfumato.report.published import pictures
from sfumato.report.synthesized import synthesis_blocks
from sfumato.report.terminal import PERCENT, THEIRS, in_words, named

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

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
_TITLES = {"synthesize": "synthetic rows"}
"""What was published, where a method has not its name."""
_PARTS = {"before", "ncp"}
_PRIVATE = "differential privacy"
_FOR_ALL = "All that stands on this page was released: it may be shown to anyone."
_FOR_THE_HOLDER = (
    "This page stays with its holder: it tells of rows that were not released. Send the one that "
    "--public-report writes instead."
)
_FOR_THE_OWNER = (
    "This page stays with its owner: what attacks found is computed from the original. Send the "
    "one that --report writes instead."
)
_FOR_RECEIVERS = (
    "This page may travel with the release: it tells nothing but what was released and what is "
    "public."
)
_ALWAYS_OPEN = (
    "Whoever has another release about the same people can compare the two, and may learn more "
    "from both than from either."
)


def page(release: Release, sample: Mapping[str, pa.Table] | None = None) -> str:
    """The whole page, with the first rows of each table; it says on its face who may see it.

    `sample` has those rows where the release is not in memory.
    """
    guarantee, provenance = release.guarantee, release.provenance
    lead = decimals(guarantee.statement)
    if guarantee.kind == _PRIVATE:
        lead = f"{_PRIVATE.capitalize()}, {lead}"
        title, audience, blocks = _published(release)
    else:
        title, audience, blocks = _anonymized(release, sample or release.sample)
    return render(
        title,
        [*blocks, *_attacks(release), *_made(release)],
        lead=lead,
        footer=f"Made by Sfumato {provenance.version}. {audience}",
    )


def _attacks(release: Release) -> list[Block]:
    """What attacks found, where whoever reads the page may know."""
    return [] if release.findings is None else findings_blocks(release.findings)


def _published(release: Release) -> tuple[str, str, list[Block]]:
    """The title, the audience and the parts of a page about noisy figures."""
    guarantee, asked = release.guarantee, release.provenance.parameters
    facts, error = guarantee.parameters, release.error or {}
    columns = asked.get("columns", ())
    method = release.provenance.method
    title = _TITLES.get(method, method.removeprefix("publish "))
    said = {"name": facts.get("table"), "columns": columns, "unit": facts.get("unit")}
    blocks = _about(release.provenance, said)
    drawn = getattr(release, "drawn_from", {})  # of a synthesis that was not read from a file
    for name, (model, rows) in drawn.items():
        blocks += [Heading(name)] if len(drawn) > 1 else []
        blocks += synthesis_blocks(model, rows)
    if not drawn and release.tables and columns:
        blocks += pictures(columns, release.tables, release.error)
    if error:
        # The figures of a question have the names that it gave them.
        stated = _pairs("Expected error", error, theirs=not columns)
        blocks += [Heading("How far off it is"), stated]
        blocks += glossary("; ".join(in_words(one) for one in error.values()))
    means = f"This is {_PRIVATE} with {_amounts(facts)}."
    blocks += [Heading("What is guaranteed"), Listing(promises(facts)), Paragraph(means)]
    blocks += [*_notes(facts), *glossary(means)]
    blocks += [Heading("What it does not protect against"), Listing(limits(facts))]
    what = f"{title.capitalize()} of {', '.join(columns)}" if columns else "Private answer"
    return what, _FOR_ALL if release.holder is None else _FOR_THE_OWNER, blocks


def _anonymized(release: Release, sample: Mapping[str, pa.Table]) -> tuple[str, str, list[Block]]:
    """The title, the audience and the parts of a page about generalized or rearranged rows."""
    facts, holder = release.guarantee.parameters, release.holder
    audience = _FOR_RECEIVERS if holder is None else _FOR_THE_HOLDER
    blocks: list[Block] = [Note(audience, warning=holder is not None)]
    blocks += _about(
        release.provenance, {"name": facts.get("table"), "rows": facts.get("released")}
    )
    blocks += [*_guarantee(release.guarantee), *_open(facts), *_columns(facts)]
    blocks += _risk(facts, None if holder is None else holder.get("risk"))
    blocks += _sample(sample)
    if holder is not None:
        blocks += _kept(holder, release.error or {})
    name = facts.get("table")
    title = "Release report" if holder is None else "Release report for the holder"
    return f"{title}: {name}" if name else title, audience, blocks


def _about(provenance: Provenance, facts: Mapping[str, Any]) -> list[Block]:
    """What it is, when it was made and by whom, at a glance."""
    said = {**facts, "date": provenance.made, "made by": provenance.by}
    return [_pairs("About this release", said)] if any(said.values()) else []


def _guarantee(guarantee: Guarantee) -> list[Block]:
    """The promise in plain words, in those of the field, and in figures."""
    facts = guarantee.parameters
    blocks: list[Block] = [Heading("What is guaranteed")]
    if facts.get("promises"):
        blocks.append(Listing(facts["promises"]))
    names = facts.get("criteria") or ()
    if names:
        blocks.append(Paragraph(f"In the words of the field: {'; '.join(names)}."))
    figures = [
        (f"{facts[name]:,}", what)
        for name, what in {"released": "rows released", "classes": "groups that look alike"}.items()
        if isinstance(facts.get(name), int)
    ]
    blocks += [KeyFigures(figures)] if figures else []
    person = facts.get("person")
    if person:
        blocks.append(
            Paragraph(f"People are counted, not rows: column {person} says whose one is.")
        )
    compared = facts.get("compared_with_original")
    if compared:
        text = f"Shares of {', '.join(compared)} are compared with those in the original."
        blocks.append(Paragraph(text))
    said = " ".join(names).replace("-", " ")
    return [*blocks, *_notes(facts), *glossary(said, "quasi-identifier class sensitive")]


def _notes(facts: Mapping[str, Any]) -> list[Block]:
    return [Note(text) for text in facts.get("notes", ())]


def _open(facts: Mapping[str, Any]) -> list[Block]:
    """What is not protected: columns, and knowledge that no criterion counts on."""
    said = [*facts.get("limits", ()), _ALWAYS_OPEN]
    blocks: list[Block] = [Heading("What it does not protect against"), Listing(said)]
    if facts.get("unprotected"):
        names = ", ".join(facts["unprotected"])
        text = f"Released and not protected by any criterion: {names}."
        blocks.append(Note(text, warning=True))
    return blocks


def _columns(facts: Mapping[str, Any]) -> list[Block]:
    """What became of each column."""
    rows = list(facts.get("columns", {}).items())
    if not rows:
        return []
    table = PageTable("Each column of the original, and what the release has of it",
                      ("Column", "Became"), rows)  # fmt: skip
    return [Heading("What each column became"), table]


_RISKS = {
    "highest": "chance to find the right row, for the person who is easiest to find",
    "average": "the same on average",
}


def _risk(facts: Mapping[str, Any], before: Mapping[str, float] | None) -> list[Block]:
    """How likely a right guess is of whose a row is; that of the original is for its holder."""
    after, counted = facts.get("risk"), facts.get("counted", "rows")
    if "risk" not in facts:
        return []
    blocks: list[Block] = [
        Heading("The risk of being found" + (", before and after" * bool(before)))
    ]
    if after is None:
        text = (
            "The columns that can identify a person are released as they are: a row is found as "
            "easily as before. What was changed is which sensitive value stands in it."
        )
        blocks.append(Paragraph(text))
    names = {**_RISKS, "at_risk": f"{counted} in groups of fewer than {SMALL}"}
    shown = {"Before": before, "After": after if after is not None else before}
    columns = {title: one for title, one in shown.items() if one}
    rows = [
        (what, *(_percent(one.get(name)) for one in columns.values()))
        for name, what in names.items()
        if any(name in one for one in columns.values())
    ]
    if rows:
        caption = "For someone who knows all that can identify a person"
        blocks.append(PageTable(caption, ("Risk", *columns), rows))
    return blocks


def _percent(share: float | None) -> str:
    return "–" if share is None else numerals.show(share, percent=True)


def _sample(tables: Mapping[str, pa.Table]) -> list[Block]:
    """The first rows of the release as they are written."""
    blocks: list[Block] = []
    for name, table in tables.items():
        rows = [
            ["" if cell is None else str(cell) for cell in row.values()]
            for row in table.to_pylist()
        ]
        caption = f"The first {len(rows):,} rows of {name}, as they are released"
        blocks.append(PageTable(caption, table.column_names, rows))
    return [Heading("A sample of the release"), *blocks] if blocks else []


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
    counted = [
        (f"{facts[name]:,}", what)
        for name, what in _KEPT_FIGURES.items()
        if isinstance(facts.get(name), int)
    ]
    blocks += [KeyFigures(counted)] if counted else []
    blocks += [Note(text) for text in holder.get("remarks", ())]
    advice = [one["words"] for one in holder.get("advice", ())]
    if advice:
        blocks += [Heading("What would have cost less", 3), Listing(advice)]
    blocks += [
        *_lost(costs),
        *_references(holder.get("reference", {})),
        *glossary("suppressed loss"),
    ]
    return blocks


def _lost(error: Mapping[str, Any]) -> list[Block]:
    """How much each column lost, and every cost, before and after where both are known."""
    before, lost = error.get("before", {}), error.get("ncp")
    blocks: list[Block] = []
    if "classes" in before:
        text = f"Before, the rows fell into {before['classes']:,} groups that look alike."
        blocks.append(Paragraph(text))
    if lost:
        label = "Detail lost in each column, as a share of its hierarchy"
        rows = list(lost.items())
        blocks.append(charts.bar(rows, label=label, what="Column", value="Loss", percent=True))
    costs = [
        (_COSTS.get(name, name), in_words(before.get(name)), in_words(value))
        for name, value in error.items()
        if name not in _PARTS
    ]
    if costs:
        caption = "All costs; of each, less is better"
        if not before:
            pairs = [(name, value) for name, _, value in costs]
            return [*blocks, PageTable(caption, ("Cost", "Value"), pairs, folded=True)]
        blocks.append(PageTable(caption, ("Cost", "Before", "After"), costs, folded=True))
    return blocks


def _references(reference: Mapping[str, Any]) -> list[Block]:
    """What the classes were compared with."""
    return [
        PageTable(
            f"The distribution of {name} in the original, which classes are compared with",
            ("Value", "Rows"),
            [(in_words(value, theirs=True), count) for value, count in counts],
            folded=True,
        )
        for name, counts in reference.items()
    ]


def _made(release: Release) -> list[Block]:
    """How it was made, so that it can be made again; the holder has whoever checks it sign."""
    provenance, left = release.provenance, _TOLD_BEFORE | _FOR_PROGRAMS
    facts = {
        "algorithm": provenance.method.removeprefix("publish "),
        **{name: one for name, one in provenance.parameters.items() if name not in left},
        "version": provenance.version,
    }
    blocks: list[Block] = [Heading("How it was made"), _pairs("What was asked", facts)]
    if release.holder is None:
        return blocks
    return [*blocks, Heading("Checked"), SignatureLines(("Checked by", "Date", "Signature"))]


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


def _pairs(caption: str, facts: Mapping[str, Any], *, theirs: bool = False) -> PageTable:
    """What is known, by name; what is nothing, and marks for programs, have no line.

    Names that are `theirs` were given by the user, and are shown as they are.
    """
    rows = [
        (name, in_words(value)) if theirs else (_title(name, value), _value(name, value))
        for name, value in facts.items()
        if not _is_nothing(value)
    ]
    return PageTable(caption, ("What", "Value"), rows)


def _title(name: str, value: Any) -> str:
    if name == "cost" and isinstance(value, dict):  # of a private release: what it has spent
        return "budget spent"
    return _ASKED.get(name, named(name))


def _is_nothing(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_nothing, value.values()))
    empty = value is None or value is False or (not isinstance(value, int | float) and not value)
    return empty or (isinstance(value, str) and _HASH.fullmatch(value) is not None)


def _value(name: str, value: Any) -> str:
    if value is True:
        return "yes"
    if name in PERCENT and value is not None:
        return numerals.show(value, percent=True)
    if name in _SHARES and isinstance(value, str) and "/" not in value:
        return numerals.show(float(value), percent=True)
    if isinstance(value, dict):
        value = {key: one for key, one in value.items() if not _is_nothing(one)}
    text = in_words(value, theirs=name in THEIRS)
    return _SUPPRESSED.get(text, text) if name == "suppressed" else text


def _amounts(cost: Mapping[str, Any]) -> str:
    names = (name for name in ("epsilon", "rho", "delta") if cost.get(name))
    return " and ".join(f"{name} {decimals(str(cost[name]))}" for name in names)
