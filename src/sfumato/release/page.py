"""The report page of a release: what it is, what is guaranteed, what is not, how to verify it.

A data-protection officer can sign it and a layman can read it: numbers as people write them, terms
explained where they are used, and nothing that only programs need. Decision `pages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.anonymize.page import anonymized_parts
from sfumato.methods.publish.page import table_blocks
from sfumato.methods.synth.page import synthesis_blocks
from sfumato.release.guarantee_text import glossary, limits, promises
from sfumato.release.output import digests_by_name
from sfumato.release.page_parts import (
    FINDINGS_INCLUDED,
    PRIVATE,
    ReportParts,
    about_release,
    facts_table,
    report_page,
    verify_release,
)
from sfumato.report.blocks import Heading, Listing, Note, Paragraph
from sfumato.report.value_text import ratios_to_decimals, value_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    import pyarrow as pa

    from sfumato.release.release import Release
    from sfumato.release.writer import ReleaseWriter
    from sfumato.report.blocks import Block
    from sfumato.report.distributions import ColumnComparison

_MOST_COLUMNS_IN_TITLE = 4
_TITLES = {"synthesize": "synthetic rows"}
"""What was published, where the name of the method does not say it."""
_PUBLIC = "Anyone may see this page: everything on it was released."
_OWNER_ONLY = (
    "Only the owner may see this page: results of attacks are computed from the original. Share "
    "the page that --report writes instead."
)


def page(
    release: Release,
    sample: Mapping[str, pa.Table] | None = None,
    *,
    files: Mapping[str, str] | None = None,
    beside: Sequence[ColumnComparison] = (),
) -> str:
    """Return the whole page. It states who may see it.

    Parameters
    ----------
    sample:
        The first rows of each table, if the release is not in memory.
    files:
        The SHA-256 of each file that was written.
    beside:
        Columns of the original compared with the released ones, for the page of the holder only.
    """
    if release.guarantee.kind == PRIVATE:
        parts = _private_parts(release, files or {})
    else:
        parts = anonymized_parts(release, sample or release.sample, files or {}, beside)
    return report_page(parts)


def write_pages(
    release: Release,
    writer: ReleaseWriter,
    sample: Mapping[str, pa.Table],
    pages: tuple[Path | None, Path | None],
    compare_columns: Callable[[], Sequence[ColumnComparison]],
) -> None:
    """Write the page of the holder and the public page together with the files of a release.

    Only the page of the holder has the columns of the original, from `compare_columns`.
    """
    files = digests_by_name(writer)
    holder_page, public_page = pages
    if holder_page is not None:
        text = page(release, sample, files=files, beside=compare_columns())
        writer.beside(holder_page, text.encode(), private=True)
    if public_page is not None:
        text = page(release.public, sample, files=files)
        writer.beside(public_page, text.encode(), private=False)


def _private_parts(release: Release, files: Mapping[str, str]) -> ReportParts:
    """Return the parts of a page about a differentially private release."""
    facts, provenance = release.guarantee.parameters, release.provenance
    columns = provenance.parameters.get("columns", ())
    table = facts.get("table")
    title = "Private answer"
    if columns:
        method = _TITLES.get(provenance.method, provenance.method.removeprefix("publish "))
        names_fit = len(columns) <= _MOST_COLUMNS_IN_TITLE or not table
        title = f"{method.capitalize()} of {', '.join(columns) if names_fit else table}"
    if release.holder is not None:
        audience = _OWNER_ONLY
    else:
        audience = _PUBLIC if release.findings is None else FINDINGS_INCLUDED
    sentences = promises(facts)
    amounts = " and ".join(
        f"{name} {ratios_to_decimals(str(facts[name]))}"
        for name in ("epsilon", "rho", "delta")
        if facts.get(name)
    )
    definition = f"This is {PRIVATE} with {amounts}."
    statement = ratios_to_decimals(release.guarantee.statement)
    described = {"name": table, "columns": columns, "unit": facts.get("unit")}
    return ReportParts(
        title=title,
        promise=sentences[0] if sentences else statement,
        audience=audience,
        private=release.holder is not None,
        subject=[*about_release(provenance, described), *_released_tables(release, columns)],
        guarantee=[
            *([Listing(sentences)] if sentences else []),
            Paragraph(f"{definition} {statement}"),
            *(Note(text) for text in facts.get("notes", ())),
            *glossary(definition),
        ],
        limits=[Listing(limits(facts))] if limits(facts) else [],
        utility=[*_synthesis(release), *_error(release, columns)],
        findings=release.findings,
        verify=verify_release(release, files),
        version=provenance.version,
    )


def _released_tables(release: Release, columns: Sequence[str]) -> list[Block]:
    """Show the published tables; synthetic rows are shown by their columns instead."""
    if getattr(release, "drawn_from", {}) or not release.tables or not columns:
        return []
    return table_blocks(columns, release.tables, release.error)


def _synthesis(release: Release) -> list[Block]:
    """Show what a synthesis measured and drew, unless the release was read from a file."""
    syntheses = getattr(release, "drawn_from", {})
    columns, maps = getattr(release, "maps", ((), {}))
    blocks = table_blocks(columns, maps, {}) if maps else []
    for name, (model, rows) in syntheses.items():
        blocks += [Heading(name, 3)] if len(syntheses) > 1 else []
        blocks += synthesis_blocks(model, rows)
    return blocks


def _error(release: Release, columns: Sequence[str]) -> list[Block]:
    """Show the expected error of the numbers; those of a query have the names of the user."""
    error: Mapping[str, Any] = release.error or {}
    if not error:
        return []
    table = facts_table("Expected error", error, verbatim=not columns)
    texts = "; ".join(value_text(value) for value in error.values())
    return [Heading("How large the error is", 3), table, *glossary(texts)]
