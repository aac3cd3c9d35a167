"""Pages about tables that were looked at, not made: attacked, inspected or measured.

All of it tells of rows of people, and is for their owner. Decision 0298.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sfumato.attack.finding import Findings
from sfumato.data.schema.column import Role
from sfumato.release.facts import COSTS
from sfumato.release.files_in_use import source_files
from sfumato.release.page_parts import ReportParts, report_page
from sfumato.release.plain_words import glossary
from sfumato.release.sidecar import checksum
from sfumato.release.verification import digests
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
    "For the owner: computed from rows of people. Keep this page; it must not travel with a "
    "release."
)
_TO_TYPE = "To have the same again"
_SETS = 12
"""So many sets of columns are shown, the most telling ones."""


def attack_page(found: Finding | Findings, release: str, command: str) -> str:
    """Attacks on a release, whoever made it."""
    findings = found if isinstance(found, Findings) else Findings((found,), {})
    beaten = [one for one in findings if one.beats_baseline]
    many = len(findings.findings)
    said = f"{len(beaten)} of {many} attackers who were tried are right more often than a guess is."
    if many == 1:
        [one] = findings.findings
        said = one.words()
    figures = [
        (f"{many:,}", "attacks that ran"),
        (f"{len(beaten):,}", "do better than a guess"),
        (f"{len(findings.not_run):,}", "could not run"),
    ]
    return report_page(
        ReportParts(
            title=f"What an attacker gets: {without_passwords(release)}",
            promise=said,
            audience=_OWNER,
            private=True,
            released=False,
            subject=[KeyFigures(figures)],
            guarantee=[Paragraph("An attack promises nothing, whether it fails or succeeds.")],
            limits=[Paragraph("Whoever knows more, or comes with another attack, may get more.")],
            findings=findings,
            verify=_verify(release, "attacked", command),
        )
    )


def inspection_page(found: Inspection, table: str, command: str) -> str:
    """Who stands out in a table as it is."""
    roles = [(one.column.name, one.column.kind, one.column.role, one.reason)
             for one in found.guesses]  # fmt: skip
    warnings = [f"{one.column.name}: {text}" for one in found.guesses for text in one.warnings]
    names = [one.column.name for one in found.guesses if one.column.role is Role.SENSITIVE]
    open_columns = f" What they say of people is in {', '.join(names)}." if names else ""
    return report_page(
        ReportParts(
            title=f"Who stands out: {without_passwords(table)}",
            promise=stands_out(found),
            audience=_OWNER,
            private=True,
            released=False,
            subject=[
                KeyFigures([(f"{found.rows:,}", "rows"), (f"{len(found.guesses):,}", "columns")]),
                PageTable("Its columns", ("Column", "Kind", "Role", "Reason"), roles),
                *(Note(text) for text in warnings),
                *glossary("quasi-identifier sensitive"),
            ],
            guarantee=[Paragraph("Nothing: this is the table as it is.")],
            limits=[Paragraph(f"Whoever gets the table gets its rows.{open_columns}")],
            found=uniqueness(found),
            verify=_verify(table, "inspected", command),
        )
    )


def stands_out(found: Inspection) -> str:
    """Who is found by what, in one sentence."""
    if not found.sets:
        return "No column is a quasi-identifier, so there is nothing to tell people apart by."
    worst = found.full
    return (
        f"{share(worst.unique_share)} of {found.counted} are the only ones with their "
        f"{', '.join(worst.columns)}."
    )


def uniqueness(found: Inspection) -> list[Block]:
    """Sets of columns by how many are unique in them, and three attackers."""
    if not found.sets:
        return []
    ordered = sorted(found.sets, key=lambda one: (-one.unique_share, len(one.columns)))
    bars = [(" + ".join(one.columns), one.unique_share) for one in ordered[:_SETS]]
    risk = found.reidentification
    attackers = (
        ("Prosecutor: knows that the person is in the table", risk.prosecutor),
        ("Journalist: picks anyone of the population", risk.journalist),
        ("Marketer: links all rows at once", risk.marketer),
    )
    rows = [(name, *map(share, (one.highest, one.average, one.at_risk))) for name, one in attackers]
    small = f"{found.counted.capitalize()} in groups below 5"
    return [
        draw_bars(
            bars,
            label=f"Who is unique, by the most telling of {len(found.sets):,} sets of columns",
            what="Columns",
            value="Unique",
            percent=True,
            note=found.left_out or "",
        ),
        PageTable(
            "An attacker who knows all quasi-identifiers",
            ("Attacker", "Highest risk", "Average risk", small),
            rows,
        ),
    ]


def measure_page(found: Mapping[str, Any], table: str, command: str) -> str:
    """What a table reaches, whoever anonymized it, from its measures as JSON."""
    counted = found["counted"]
    whose = "original's" if found["reference"] == "original" else "release's own"
    promise = f"Nobody stands in a group of fewer than {found['k']:,} {counted} that look alike."
    figures = [
        (f"{found['rows']:,}", "rows"),
        (f"{found['classes']:,}", "groups that look alike"),
        (f"{found['k']:,}", f"{counted} in the smallest"),
    ]
    costs = [(COSTS.get(name, name), value_text(one)) for name, one in found["cost"].items()]
    more = [
        PageTable(f"Against the {name}", ("What", "Value"), _pairs(found[name]))
        for name in ("population", "workload")
        if found.get(name)
    ]
    return report_page(
        ReportParts(
            title=f"What a table reaches: {without_passwords(table)}",
            promise=promise,
            audience=_OWNER,
            private=True,
            released=False,
            subject=[KeyFigures(figures)],
            guarantee=[
                Listing([promise, "It is measured in these rows, and promises nothing of others."]),
                *_reached(found["sensitive"]),
                Paragraph(f"Groups are compared with the {whose} distribution of values."),
                *glossary("anonymity diversity closeness disclosure likeness class sensitive"),
            ],
            limits=[Paragraph("What a group shares is known of everyone in it, however large.")],
            utility=[
                Heading("What was lost", 3),
                PageTable("All costs; of each, less is better", ("Cost", "Value"), costs),
                *more,
            ],
            verify=_verify(table, "measured", command),
        )
    )


def _reached(sensitive: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    """Every l and t of each sensitive column."""
    names = dict.fromkeys(name for one in sensitive.values() for name in one)
    rows = [
        (name.replace("_", " "), *(_level(one.get(name)) for one in sensitive.values()))
        for name in names
    ]
    return [PageTable("What each sensitive column reaches", ("Measure", *sensitive), rows)] * bool(
        rows
    )


def _level(value: Any) -> str:
    """A figure, or one for each l."""
    if not isinstance(value, dict):
        return value_text(value)
    return "; ".join(f"l = {l}: {value_text(one)}" for l, one in value.items())  # noqa: E741


def _pairs(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name.replace("_", " "), value_text(one)) for name, one in facts.items()]


def _verify(source: str, done: str, command: str) -> Sequence[Block]:
    files = {one.name: checksum(one) for one in source_files(source) if one.is_file()}
    return [*digests(files, done), Commands(_TO_TYPE, [command])]
