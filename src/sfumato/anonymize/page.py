"""What a page says of generalized or rearranged rows; what tells of the original, to its holder.

Risk after, words and sample are functions of the release, and travel; costs, distributions beside
those of the original and what a search has said do not. Decisions 0225, 0298, 0299.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.data.inspection.uniqueness import SMALL
from sfumato.release.facts import COSTS, about
from sfumato.release.page_parts import FINDINGS_TRAVEL, ReportParts
from sfumato.release.plain_words import glossary
from sfumato.release.verification import verify_release
from sfumato.report.bars import draw_bars
from sfumato.report.blocks import Heading, KeyFigures, Listing, Note, PageTable, Paragraph
from sfumato.report.distributions import draw_comparison, fold
from sfumato.report.text_width import cut
from sfumato.report.value_text import ratios_to_decimals, share, show, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.release.release import Guarantee, Release
    from sfumato.report.blocks import Block
    from sfumato.report.distributions import ColumnComparison

_PARTS = {"before", "ncp"}
_FOR_THE_HOLDER = (
    "This page stays with its holder: it tells of rows that were not released. Send the one that "
    "--public-report writes instead."
)
_FOR_RECEIVERS = (
    "This page may travel with the release: it tells nothing but what was released and what is "
    "public."
)
_ALWAYS_OPEN = (
    "Whoever has another release about the same people can compare the two, and may learn more "
    "from both than from either."
)
_USE = (
    "Count with the labels as they stand: a range, a group or a mask covers every value that it "
    "may stand for. sfumato worlds tells between which ends the answer to a question lies."
)
_BESIDE = (
    "Every column of the original beside the released one. Where a label covers several values, "
    "its rows are spread evenly over them. How far apart they are is told in rows that would have "
    "to take other values for both to be alike."
)


def anonymized_parts(
    release: Release,
    sample: Mapping[str, pa.Table],
    files: Mapping[str, str],
    beside: Sequence[ColumnComparison],
) -> ReportParts:
    """What the page of such a release says, to its holder or to receivers."""
    facts, holder = release.guarantee.parameters, release.holder
    name, promised = facts.get("table"), facts.get("promises")
    title = "Release report" if holder is None else "Release report for the holder"
    return ReportParts(
        title=f"{title}: {name}" if name else title,
        promise=ratios_to_decimals(promised[0] if promised else release.guarantee.statement),
        audience=_audience(release),
        private=holder is not None,
        subject=_released(release, sample),
        guarantee=_guarantee(release.guarantee),
        limits=_open(facts, holder),
        utility=_utility(release, beside),
        found=_risk(facts, None if holder is None else holder.get("risk")),
        findings=release.findings,
        verify=verify_release(release, files),
        version=release.provenance.version,
    )


def _audience(release: Release) -> str:
    """Who may see the page."""
    if release.holder is not None:
        return _FOR_THE_HOLDER
    return _FOR_RECEIVERS if release.findings is None else FINDINGS_TRAVEL


def _released(release: Release, sample: Mapping[str, pa.Table]) -> list[Block]:
    """What it is, what became of each column, the first rows; and what is gone, to the holder."""
    facts, holder = release.guarantee.parameters, release.holder
    shown = {"released": "rows released", "classes": "groups that look alike"}
    kept = {} if holder is None else holder.get("figures", {})
    figures = [(f"{facts[one]:,}", what) for one, what in shown.items() if _counts(facts, one)]
    figures += [
        (f"{kept[one]:,}", what) for one, what in _KEPT_FIGURES.items() if _counts(kept, one)
    ]
    return [
        *about(release.provenance, {"name": facts.get("table"), "rows": facts.get("released")}),
        *([KeyFigures(figures)] if figures else []),
        *_columns(facts),
        *_sample(sample),
    ]


_KEPT_FIGURES = {
    "rows": "rows in the original",
    "suppressed": "rows suppressed",
    "lattice": "ways to generalize",
    "checked": "of them examined",
}
"""What only the holder sees."""


def _counts(facts: Mapping[str, Any], name: str) -> bool:
    return isinstance(facts.get(name), int)


def _columns(facts: Mapping[str, Any]) -> list[Block]:
    """What became of each column."""
    rows = list(facts.get("columns", {}).items())
    if not rows:
        return []
    table = PageTable("Each column of the original, and what the release has of it",
                      ("Column", "Became"), rows)  # fmt: skip
    return [Heading("What each column became", 3), table]


def _sample(tables: Mapping[str, pa.Table]) -> list[Block]:
    """The first rows of the release as they are written."""
    blocks: list[Block] = []
    for name, table in tables.items():
        rows = [
            ["" if cell is None else cut(str(cell)) for cell in row.values()]
            for row in table.to_pylist()
        ]
        caption = f"The first {len(rows):,} rows of {name}, as they are released"
        blocks.append(PageTable(caption, table.column_names, rows))
    return [Heading("A sample of the release", 3), *blocks] if blocks else []


def _guarantee(guarantee: Guarantee) -> list[Block]:
    """The promise in plain words, and in those of the field."""
    facts = guarantee.parameters
    blocks: list[Block] = [Listing(facts["promises"])] if facts.get("promises") else []
    names = facts.get("criteria") or ()
    stated = ratios_to_decimals(guarantee.statement)
    field = f" In the words of the field: {'; '.join(names)}." if names else ""
    blocks.append(Paragraph(f"{stated}{field}"))
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
    notes = [Note(text) for text in facts.get("notes", ())]
    return [*blocks, *notes, *glossary(said, "quasi-identifier class sensitive")]


def _open(facts: Mapping[str, Any], holder: Mapping[str, Any] | None) -> list[Block]:
    """What is not protected: columns, knowledge that no criterion counts on, who is exposed."""
    blocks: list[Block] = [Listing([*facts.get("limits", ()), _ALWAYS_OPEN])]
    if facts.get("unprotected"):
        names = ", ".join(facts["unprotected"])
        text = f"Released and not protected by any criterion: {names}."
        blocks.append(Note(text, warning=True))
    warnings = () if holder is None else holder.get("findings", ())
    return [*blocks, *(Note(text, warning=True) for text in warnings)]


def _utility(release: Release, beside: Sequence[ColumnComparison]) -> list[Block]:
    """What it is still good for; to the holder also what was lost, before beside after."""
    holder = release.holder
    blocks: list[Block] = [Paragraph(_USE)]
    if holder is None:
        return blocks
    if beside:
        ordered = sorted(beside, key=lambda one: -one.distance)
        drawn = [(_moved(one), draw_comparison(one, label=_moved(one), series="Table"))
                 for one in ordered]  # fmt: skip
        blocks += [Heading("Before and after", 3), Paragraph(_BESIDE), *fold(drawn)]
    blocks += [Heading("What was lost", 3), *(Note(text) for text in holder.get("remarks", ()))]
    blocks += _lost(release.error or {})
    advice = [one["words"] for one in holder.get("advice", ())]
    if advice:
        blocks += [Heading("What would have cost less", 3), Listing(advice)]
    return [*blocks, *_references(holder.get("reference", {})), *glossary("suppressed loss")]


def _moved(one: ColumnComparison) -> str:
    return f"{one.column}: {share(one.distance)} of rows would have to move"


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
        Heading("The risk of being found" + (", before and after" * bool(before)), 3)
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
    return "–" if share is None else show(share, percent=True)


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
        blocks.append(draw_bars(rows, label=label, what="Column", value="Loss", percent=True))
    costs = [
        (COSTS.get(name, name), value_text(before.get(name)), value_text(value))
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
            [(cut(value_text(value, verbatim=True)), count) for value, count in counts],
            folded=True,
        )
        for name, counts in reference.items()
    ]
