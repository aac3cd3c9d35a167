"""The page of an anonymized table, for its receivers or for the holder of the original.

The risk after anonymization, the promises and the sample are functions of the release and may
travel with it. Costs, distributions of the original and warnings are shown to the holder only.
Decision `pages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.data.inspection.risk import SMALL
from sfumato.release.guarantee_text import glossary
from sfumato.release.page_parts import (
    COSTS,
    FINDINGS_INCLUDED,
    ReportParts,
    about_release,
    verify_release,
)
from sfumato.report.bars import draw_bars
from sfumato.report.blocks import Heading, KeyFigures, Listing, Note, PageTable, Paragraph
from sfumato.report.distributions import draw_comparison, fold
from sfumato.report.drawing import cut
from sfumato.report.value_text import ratios_to_decimals, share, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.release.release import Guarantee, Release
    from sfumato.report.blocks import Block
    from sfumato.report.distributions import ColumnComparison

_HOLDER_ONLY = (
    "Only the holder may see this page: it describes rows that were not released. Share the page "
    "that --public-report writes instead."
)
_FOR_RECEIVERS = (
    "This page may travel with the release: it contains only what was released and what is public."
)
_SEVERAL_RELEASES = (
    "Anyone with another release about the same people can compare the two, and may learn more "
    "from both than from each alone."
)
_USE = (
    "Counts by released labels are exact for the released rows. A label such as a range stands for "
    "several values; for a count by one of them, the command sfumato worlds gives the lowest and "
    "the highest possible answer."
)
_BEFORE_AND_AFTER = (
    "Every column of the original beside the released one. The rows of a label that covers several "
    "values are spread evenly over them. The distance is the total variation distance: the share "
    "of rows that would need other values for both columns to be equal."
)
_UNCHANGED_QUASI = (
    "The columns that can identify a person are released unchanged, so a row is found as easily as "
    "before. What changed is the sensitive value that stands in it."
)
_PUBLIC_FIGURES = {"released": "rows released", "classes": "classes of rows that look alike"}
_HOLDER_FIGURES = {
    "rows": "rows in the original",
    "suppressed": "rows suppressed",
    "lattice": "ways to generalize",
    "checked": "of them examined",
}
_RISKS = {
    "highest": "chance of finding the right row, for the person who is easiest to find",
    "average": "the same on average",
}
_NO_COSTS = {"before", "ncp"}
"""Entries of the error that the list of costs does not show."""


def anonymized_parts(
    release: Release,
    sample: Mapping[str, pa.Table],
    files: Mapping[str, str],
    beside: Sequence[ColumnComparison],
) -> ReportParts:
    """Return the parts of the page of an anonymized table, for its holder or for receivers."""
    facts, holder = release.guarantee.parameters, release.holder
    name, promises = facts.get("table"), facts.get("promises")
    title = "Release report" if holder is None else "Release report for the holder"
    if holder is not None:
        audience = _HOLDER_ONLY
    else:
        audience = _FOR_RECEIVERS if release.findings is None else FINDINGS_INCLUDED
    return ReportParts(
        title=f"{title}: {name}" if name else title,
        promise=ratios_to_decimals(promises[0] if promises else release.guarantee.statement),
        audience=audience,
        private=holder is not None,
        subject=_released_blocks(release, sample),
        guarantee=_guarantee(release.guarantee),
        limits=_limits(facts, holder),
        utility=_utility(release, beside),
        risk=_risk(facts, None if holder is None else holder.get("risk")),
        findings=release.findings,
        verify=verify_release(release, files),
        version=release.provenance.version,
    )


def _released_blocks(release: Release, sample: Mapping[str, pa.Table]) -> list[Block]:
    """Show the released table, the change of each column, and the first rows."""
    facts, holder = release.guarantee.parameters, release.holder
    described = {"name": facts.get("table"), "rows": facts.get("released")}
    blocks = about_release(release.provenance, described)
    counts = [(facts, _PUBLIC_FIGURES)]
    if holder is not None:
        counts.append((holder.get("figures", {}), _HOLDER_FIGURES))
    figures = [
        (f"{source[key]:,}", words)
        for source, names in counts
        for key, words in names.items()
        if isinstance(source.get(key), int)
    ]
    blocks += [KeyFigures(figures)] if figures else []
    columns = list(facts.get("columns", {}).items())
    if columns:
        caption = "Each column of the original, and what the release has of it"
        table = PageTable(caption, ("Column", "Became"), columns)
        blocks += [Heading("How each column changed", 3), table]
    samples: list[Block] = []
    for name, table_rows in sample.items():
        rows = [
            ["" if cell is None else cut(str(cell)) for cell in row.values()]
            for row in table_rows.to_pylist()
        ]
        caption = f"The first {len(rows):,} rows of {name}, as released"
        samples.append(PageTable(caption, table_rows.column_names, rows))
    return [*blocks, *([Heading("A sample of the release", 3), *samples] if samples else [])]


def _guarantee(guarantee: Guarantee) -> list[Block]:
    """Return the promises in plain words, and the criteria by name."""
    facts = guarantee.parameters
    criteria = facts.get("criteria") or ()
    blocks: list[Block] = [Listing(facts["promises"])] if facts.get("promises") else []
    named = f" Criteria: {'; '.join(criteria)}." if criteria else ""
    blocks.append(Paragraph(f"{ratios_to_decimals(guarantee.statement)}{named}"))
    if facts.get("person"):
        text = f"People are counted, not rows: column {facts['person']} identifies the person."
        blocks.append(Paragraph(text))
    if facts.get("compared_with_original"):
        columns = ", ".join(facts["compared_with_original"])
        blocks.append(Paragraph(f"Shares of {columns} are compared with those in the original."))
    notes = [Note(text) for text in facts.get("notes", ())]
    used = " ".join(criteria).replace("-", " ")
    return [*blocks, *notes, *glossary(used, "quasi-identifier class sensitive")]


def _limits(facts: Mapping[str, Any], holder: Mapping[str, Any] | None) -> list[Block]:
    """Show what is not protected; the holder also sees warnings about exposed people."""
    blocks: list[Block] = [Listing([*facts.get("limits", ()), _SEVERAL_RELEASES])]
    if facts.get("unprotected"):
        names = ", ".join(facts["unprotected"])
        text = f"Released, and not protected by any criterion: {names}."
        blocks.append(Note(text, warning=True))
    warnings = () if holder is None else holder.get("findings", ())
    return [*blocks, *(Note(text, warning=True) for text in warnings)]


def _utility(release: Release, beside: Sequence[ColumnComparison]) -> list[Block]:
    """Show how to use the release; the holder also sees what was lost."""
    holder = release.holder
    blocks: list[Block] = [Paragraph(_USE)]
    if holder is None:
        return blocks
    if beside:
        ordered = sorted(beside, key=lambda comparison: -comparison.distance)
        pictures = []
        for comparison in ordered:
            label = f"{comparison.column}: distance {share(comparison.distance)}"
            pictures.append((label, draw_comparison(comparison, label=label, series="Table")))
        heading = Heading("Before and after", 3)
        blocks += [heading, Paragraph(_BEFORE_AND_AFTER), *fold(pictures)]
    remarks = [Note(text) for text in holder.get("remarks", ())]
    blocks += [Heading("What was lost", 3), *remarks, *_costs(release.error or {})]
    advice = [option["words"] for option in holder.get("advice", ())]
    if advice:
        blocks += [Heading("Options that would have cost less", 3), Listing(advice)]
    references = [
        PageTable(
            f"Distribution of {name} in the original, which groups are compared with",
            ("Value", "Rows"),
            [(cut(value_text(value, verbatim=True)), rows) for value, rows in counts],
            folded=True,
        )
        for name, counts in holder.get("reference", {}).items()
    ]
    return [*blocks, *references, *glossary("suppressed loss")]


def _risk(facts: Mapping[str, Any], before: Mapping[str, float] | None) -> list[Block]:
    """Show the chance of finding the row of a person; for the holder also in the original."""
    if "risk" not in facts:
        return []
    after, counted = facts["risk"], facts.get("counted", "rows")
    heading = "Risk of re-identification" + (", before and after" if before else "")
    blocks: list[Block] = [Heading(heading, 3)]
    if after is None:
        blocks.append(Paragraph(_UNCHANGED_QUASI))
    names = {**_RISKS, "at_risk": f"{counted} in groups of fewer than {SMALL}"}
    columns = {"Before": before, "After": before if after is None else after}
    shown = {title: risks for title, risks in columns.items() if risks}
    rows = [
        (words, *("–" if risks.get(key) is None else share(risks[key]) for risks in shown.values()))
        for key, words in names.items()
        if any(key in risks for risks in shown.values())
    ]
    if rows:
        caption = "For an attacker who knows all quasi-identifiers of a person"
        blocks.append(PageTable(caption, ("Risk", *shown), rows))
    return blocks


def _costs(error: Mapping[str, Any]) -> list[Block]:
    """Return the loss of each column, and every cost, before and after where both are known."""
    before, losses = error.get("before", {}), error.get("ncp")
    blocks: list[Block] = []
    if "classes" in before:
        text = (
            f"In the original, the rows form {before['classes']:,} classes of rows that look alike."
        )
        blocks.append(Paragraph(text))
    if losses:
        label = "Detail lost in each column, as a share of its hierarchy"
        bars = list(losses.items())
        blocks.append(draw_bars(bars, label=label, category="Column", value="Loss", percent=True))
    costs = {name: value for name, value in error.items() if name not in _NO_COSTS}
    if costs:
        headers = ("Cost", "Before", "After") if before else ("Cost", "Value")
        rows = [
            (
                COSTS.get(name, name),
                *([value_text(before.get(name))] if before else []),
                value_text(value),
            )
            for name, value in costs.items()
        ]
        blocks.append(PageTable("All costs; smaller is better", headers, rows, folded=True))
    return blocks
