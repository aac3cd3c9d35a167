"""Pages about tables that were examined: attacked, inspected or measured.

They are computed from rows of people and are for the owner only. Decision `pages`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.attack.finding import Findings
from sfumato.data.schema.column import Role
from sfumato.release.files_in_use import source_files
from sfumato.release.guarantee_text import glossary
from sfumato.release.page_parts import COSTS, ReportParts, digests, report_page
from sfumato.release.sidecar import checksum
from sfumato.report.bars import draw_bars
from sfumato.report.blocks import Commands, Heading, KeyFigures, Listing, Note, PageTable, Paragraph
from sfumato.report.value_text import share, value_text
from sfumato.text import without_passwords

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.attack.finding import Finding
    from sfumato.data.inspection import Inspection
    from sfumato.report.blocks import Block

_OWNER = (
    "For the owner only: computed from rows of people. Keep this page; do not share it with a "
    "release."
)
_MOST_SETS = 12
"""The most sets of columns in a chart, those with the most unique people first."""


def attack_page(found: Finding | Findings, release: str, command: str) -> str:
    """Return the page about attacks on a release."""
    findings = found if isinstance(found, Findings) else Findings((found,), {})
    successful = [finding for finding in findings if finding.beats_baseline]
    run = len(findings.findings)
    promise = f"{len(successful)} of {run} attackers are right more often than a guess."
    if run == 1:
        promise = findings.findings[0].words()
    figures = [
        (f"{run:,}", "attacks that ran"),
        (f"{len(successful):,}", "do better than a guess"),
        (f"{len(findings.not_run):,}", "could not run"),
    ]
    return report_page(
        ReportParts(
            title=f"What attackers learn from {without_passwords(release)}",
            promise=promise,
            audience=_OWNER,
            private=True,
            released=False,
            subject=[KeyFigures(figures)],
            guarantee=[Paragraph("An attack guarantees nothing, whether it fails or succeeds.")],
            limits=[
                Paragraph("An attacker who knows more, or uses another attack, may learn more.")
            ],
            findings=findings,
            verify=_verify(release, "attacked", command),
        )
    )


def inspection_page(inspection: Inspection, table: str, command: str) -> str:
    """Return the page about people who stand out in a table as it is."""
    guesses = inspection.guesses
    roles = [
        (guess.column.name, guess.column.kind, guess.column.role, guess.reason) for guess in guesses
    ]
    warnings = [f"{guess.column.name}: {text}" for guess in guesses for text in guess.warnings]
    sensitive = [guess.column.name for guess in guesses if guess.column.role is Role.SENSITIVE]
    exposed = f" Sensitive facts are in {', '.join(sensitive)}." if sensitive else ""
    figures = [(f"{inspection.rows:,}", "rows"), (f"{len(guesses):,}", "columns")]
    return report_page(
        ReportParts(
            title=f"Who stands out in {without_passwords(table)}",
            promise=stands_out(inspection),
            audience=_OWNER,
            private=True,
            released=False,
            subject=[
                KeyFigures(figures),
                PageTable("Columns", ("Column", "Type", "Role", "Reason"), roles),
                *(Note(text) for text in warnings),
                *glossary("quasi-identifier sensitive"),
            ],
            guarantee=[Paragraph("Nothing: this is the table as it is.")],
            limits=[Paragraph(f"Anyone who gets the table can read every row.{exposed}")],
            risk=uniqueness(inspection),
            verify=_verify(table, "inspected", command),
        )
    )


def stands_out(inspection: Inspection) -> str:
    """Return the share of unique people in one sentence."""
    if not inspection.sets:
        return "No column is a quasi-identifier, so nothing tells people apart."
    full = inspection.full
    columns = ", ".join(full.columns)
    return f"{share(full.unique_share)} of {inspection.counted} are unique in {columns}."


def uniqueness(inspection: Inspection) -> list[Block]:
    """Show the share of unique people for sets of columns, and the risk from three attackers."""
    if not inspection.sets:
        return []
    ordered = sorted(inspection.sets, key=lambda risk: (-risk.unique_share, len(risk.columns)))
    bars = [(" + ".join(risk.columns), risk.unique_share) for risk in ordered[:_MOST_SETS]]
    risks = inspection.reidentification
    attackers = (
        ("Prosecutor: knows that the person is in the table", risks.prosecutor),
        ("Journalist: looks for anyone in the population", risks.journalist),
        ("Marketer: links all rows at once", risks.marketer),
    )
    rows = [
        (name, *map(share, (risk.highest, risk.average, risk.at_risk))) for name, risk in attackers
    ]
    small = f"{inspection.counted.capitalize()} in groups below 5"
    return [
        draw_bars(
            bars,
            label=f"Unique people, by the most revealing of {len(inspection.sets):,} column sets",
            category="Columns",
            value="Unique",
            percent=True,
            note=inspection.left_out or "",
        ),
        PageTable(
            "Risk from an attacker who knows all quasi-identifiers",
            ("Attacker", "Highest risk", "Average risk", small),
            rows,
        ),
    ]


def measure_page(measures: Mapping[str, Any], table: str, command: str) -> str:
    """Return the page about the criteria that a table meets."""
    counted = measures["counted"]
    origin = "the original" if measures["reference"] == "original" else "the release itself"
    promise = f"Every group of {counted} that look alike has at least {measures['k']:,}."
    figures = [
        (f"{measures['rows']:,}", "rows"),
        (f"{measures['classes']:,}", "classes of rows that look alike"),
        (f"{measures['k']:,}", f"{counted} in the smallest group"),
    ]
    costs = [(COSTS.get(name, name), value_text(cost)) for name, cost in measures["cost"].items()]
    comparisons = [
        PageTable(
            f"Compared with the {name}",
            ("What", "Value"),
            [(key.replace("_", " "), value_text(value)) for key, value in measures[name].items()],
        )
        for name in ("population", "workload")
        if measures.get(name)
    ]
    return report_page(
        ReportParts(
            title=f"What {without_passwords(table)} achieves",
            promise=promise,
            audience=_OWNER,
            private=True,
            released=False,
            subject=[KeyFigures(figures)],
            guarantee=[
                Listing([promise, "This was measured in these rows. It promises nothing else."]),
                *_sensitive_table(measures["sensitive"]),
                Paragraph(f"Groups are compared with the distribution of values in {origin}."),
                *glossary("anonymity diversity closeness disclosure likeness class sensitive"),
            ],
            limits=[Paragraph("A value that a whole group shares is known of everyone in it.")],
            utility=[
                Heading("What was lost", 3),
                PageTable("All costs; smaller is better", ("Cost", "Value"), costs),
                *comparisons,
            ],
            verify=_verify(table, "measured", command),
        )
    )


def _sensitive_table(sensitive: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Return a table of every measure, such as l and t, of each sensitive column."""
    names = dict.fromkeys(name for measures in sensitive.values() for name in measures)
    rows = [
        (
            name.replace("_", " "),
            *(_measure_text(measures.get(name)) for measures in sensitive.values()),
        )
        for name in names
    ]
    table = PageTable("Measures of each sensitive column", ("Measure", *sensitive), rows)
    return [table] if rows else []


def _measure_text(value: Any) -> str:
    """Write one number, or one for each l."""
    if not isinstance(value, dict):
        return value_text(value)
    return "; ".join(f"l = {level}: {value_text(number)}" for level, number in value.items())


def _verify(source: str, action: str, command: str) -> Sequence[Block]:
    files = {path.name: checksum(path) for path in source_files(source) if path.is_file()}
    return [*digests(files, action), Commands("Run the same command again", [command])]
