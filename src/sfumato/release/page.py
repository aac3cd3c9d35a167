"""A release as a page for people: what it is, what is guaranteed and what is not, how to verify it.

It is written so that a data-protection officer can sign it and a layman can read it: numbers as
people write them, the words of the field explained where they stand, marks for programs left to
the side-car. Decisions 0225, 0298.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.anonymize.page import anonymized_parts
from sfumato.methods.publish.page import table_blocks
from sfumato.methods.synth.page import synthesis_blocks
from sfumato.release.facts import about, pairs
from sfumato.release.page_parts import FINDINGS_TRAVEL, ReportParts, report_page
from sfumato.release.plain_words import glossary, limits, promises
from sfumato.release.verification import verify_release
from sfumato.report.blocks import Heading, Listing, Note, Paragraph
from sfumato.report.value_text import ratios_to_decimals, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.release.release import Release
    from sfumato.report.blocks import Block
    from sfumato.report.distributions import ColumnComparison

_FEW = 4
"""So many columns have room in a title."""
_TITLES = {"synthesize": "synthetic rows"}
"""What was published, where a method has not its name."""
_PRIVATE = "differential privacy"
_FOR_ALL = "All that stands on this page was released: it may be shown to anyone."
_FOR_THE_OWNER = (
    "This page stays with its owner: what attacks found is computed from the original. Send the "
    "one that --report writes instead."
)


def page(
    release: Release,
    sample: Mapping[str, pa.Table] | None = None,
    *,
    files: Mapping[str, str] | None = None,
    beside: Sequence[ColumnComparison] = (),
) -> str:
    """The whole page, with the first rows of each table; it says on its face who may see it.

    `sample` has those rows where the release is not in memory, `files` the SHA-256 of each file
    that was written. `beside` are columns of the original beside the released ones: only its
    holder's page shows them.
    """
    if release.guarantee.kind == _PRIVATE:
        parts = _published(release, files or {})
    else:
        parts = anonymized_parts(release, sample or release.sample, files or {}, beside)
    return report_page(parts)


def _published(release: Release, files: Mapping[str, str]) -> ReportParts:
    """What a page about noisy figures says."""
    facts, provenance = release.guarantee.parameters, release.provenance
    columns = provenance.parameters.get("columns", ())
    title = _TITLES.get(provenance.method, provenance.method.removeprefix("publish "))
    said = {"name": facts.get("table"), "columns": columns, "unit": facts.get("unit")}
    means = f"This is {_PRIVATE} with {_amounts(facts)}."
    promised = promises(facts)
    return ReportParts(
        title=f"{title.capitalize()} of {_named(columns, facts)}" if columns else "Private answer",
        promise=promised[0] if promised else ratios_to_decimals(release.guarantee.statement),
        audience=_audience(release),
        private=release.holder is not None,
        subject=[*about(provenance, said), *_tables(release, columns)],
        guarantee=[
            *([Listing(promised)] if promised else []),
            Paragraph(f"{means} {ratios_to_decimals(release.guarantee.statement)}"),
            *(Note(text) for text in facts.get("notes", ())),
            *glossary(means),
        ],
        limits=[Listing(limits(facts))] if limits(facts) else [],
        utility=[*_drawn(release), *_error(release, columns)],
        findings=release.findings,
        verify=verify_release(release, files),
        version=provenance.version,
    )


def _audience(release: Release) -> str:
    """Who may see the page."""
    if release.holder is not None:
        return _FOR_THE_OWNER
    return _FOR_ALL if release.findings is None else FINDINGS_TRAVEL


def _named(columns: Sequence[str], facts: Mapping[str, Any]) -> str:
    """What was published, for a title: columns, or their table where they are many."""
    table = facts.get("table")
    return ", ".join(columns) if len(columns) <= _FEW or not table else str(table)


def _tables(release: Release, columns: Sequence[str]) -> list[Block]:
    """What was published, in pictures and figures; synthetic rows are told of by their columns."""
    if getattr(release, "drawn_from", {}) or not release.tables or not columns:
        return []
    return table_blocks(columns, release.tables, release.error)


def _drawn(release: Release) -> list[Block]:
    """Of a synthesis that was not read from a file: what was measured, and what was drawn."""
    drawn, (columns, maps) = getattr(release, "drawn_from", {}), getattr(release, "maps", ((), {}))
    blocks = table_blocks(columns, maps, {}) if maps else []
    for name, (model, rows) in drawn.items():
        blocks += [Heading(name, 3)] if len(drawn) > 1 else []
        blocks += synthesis_blocks(model, rows)
    return blocks


def _error(release: Release, columns: Sequence[str]) -> list[Block]:
    """How far figures are off; those of a question have the names that it gave them."""
    error = release.error or {}
    if not error:
        return []
    stated = pairs("Expected error", error, theirs=not columns)
    words = "; ".join(value_text(one) for one in error.values())
    return [Heading("How far off it is", 3), stated, *glossary(words)]


def _amounts(cost: Mapping[str, Any]) -> str:
    names = (name for name in ("epsilon", "rho", "delta") if cost.get(name))
    return " and ".join(f"{name} {ratios_to_decimals(str(cost[name]))}" for name in names)
