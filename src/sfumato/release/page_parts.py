"""Parts of all report pages: the order of sections, tables of facts, commands to verify files.

A page fills in the parts that it has; their order and headings are set here. Decision `pages`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

from sfumato import __version__
from sfumato.attack.page import FAILED, TITLE, failed_blocks, tried_blocks
from sfumato.data.schema.names import count
from sfumato.report.blocks import (
    Commands,
    Heading,
    Note,
    PageTable,
    Paragraph,
    SignatureLines,
)
from sfumato.report.page import render
from sfumato.report.value_text import figure_name, figure_text, share, value_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.attack.finding import Findings
    from sfumato.release.release import Provenance, Release
    from sfumato.report.blocks import Block

RELEASED, EXAMINED = "What was released", "What was examined"
GUARANTEED = "What is guaranteed"
OPEN = "What it does not protect against"
UTILITY = "What it is good for"
VERIFY = "How to verify"
PRIVATE = "differential privacy"
FINDINGS_INCLUDED = (
    "Anyone may see this page, by decision of its owner. Beside the release it reports what "
    "attacks found. Those results were computed from the original rows, and no guarantee covers "
    "them."
)
_NO_ATTACK = (
    "No {other}attack was tried for this page. That does not mean that the release is safe: with "
    "sfumato attack all its owner can see what attackers learn."
)
_FINDINGS_WITHHELD = (
    "Results of attacks are computed from the original, so only the owner sees them."
)
_SIDECAR_HAS_DIGESTS = (
    "The side-car beside the release has the SHA-256 of each of its files. sfumato refuses to read "
    "a file that does not match."
)
_MOST_DIGESTS = 20
"""For more files, the page refers to the digests in the side-car."""
COSTS = {
    "loss": "loss: mean share of the hierarchy that a label covers",
    "loss_geometric": "loss, geometric mean over columns",
    "discernability": "discernability: number of pairs of rows that look alike",
    "average_class_size": "average class size, in multiples of k",
    "c_avg": "C_AVG: released rows per class, in multiples of k",
    "precision": "precision: mean share of the steps up the hierarchies",
    "entropy": "entropy: bits lost",
    "suppressed": "suppressed rows",
}
"""The costs of anonymized tables in words. A smaller cost is better."""
_DIGEST = re.compile(r"[0-9a-f]{32,}")
_SHOWN_ELSEWHERE = {"columns", "unit"}
_FOR_PROGRAMS = {"plan", "all"}
"""Parameters of a query: how it runs, and which rows are totals."""
_PARAMETER_NAMES = {
    "suppress": "most rows that may be suppressed",
    "suppressed": "suppressed rows",
    "cost": "cost to minimise",
    "version": "version of Sfumato",
    "unit": "what is hidden",
}
_SUPPRESSED = {"drop": "left out", "star": "blank"}


@dataclass(frozen=True, kw_only=True)
class ReportParts:
    """The parts of one page. `promise` is the guarantee in one plain sentence.

    A `private` page is computed from rows of people and is for the owner only. `risk` comes before
    the attacks. `released` is false for pages about tables that are not releases.
    """

    title: str
    promise: str
    audience: str
    private: bool
    subject: Sequence[Block] = ()
    released: bool = True
    guarantee: Sequence[Block] = ()
    limits: Sequence[Block] = ()
    utility: Sequence[Block] = ()
    risk: Sequence[Block] = ()
    findings: Findings | None = None
    verify: Sequence[Block] = ()
    version: str = __version__


def report_page(parts: ReportParts) -> str:
    """Return the whole page, without empty sections."""
    findings = parts.findings
    sections = {
        RELEASED if parts.released else EXAMINED: parts.subject,
        GUARANTEED: parts.guarantee,
        OPEN: parts.limits,
        UTILITY: parts.utility,
        TITLE: [*parts.risk, *_attack_blocks(parts)],
        FAILED: [] if findings is None else failed_blocks(findings),
        VERIFY: parts.verify,
    }
    blocks: list[Block] = [Note(parts.audience, warning=parts.private)]
    for heading, content in sections.items():
        blocks += [Heading(heading), *content] if content else []
    footer = f"Made by Sfumato {parts.version}. {parts.audience}"
    return render(parts.title, blocks, lead=parts.promise, footer=footer)


def _attack_blocks(parts: ReportParts) -> list[Block]:
    """Show the attacks, or the reason why there are none."""
    if parts.findings is not None:
        return tried_blocks(parts.findings)
    other = "other " if parts.risk else ""
    return [Paragraph(_NO_ATTACK.format(other=other) if parts.private else _FINDINGS_WITHHELD)]


def facts_table(caption: str, facts: Mapping[str, Any], *, verbatim: bool = False) -> PageTable:
    """Return a table of facts by name, without empty values and digests.

    With `verbatim` names are shown unchanged, because the user chose them.
    """
    rows = [
        (name, value_text(value)) if verbatim else (_fact_name(name, value), _fact(name, value))
        for name, value in facts.items()
        if not _is_empty(value)
    ]
    return PageTable(caption, ("What", "Value"), rows)


def _fact_name(name: str, value: Any) -> str:
    if name == "cost" and isinstance(value, dict):  # the budget that a private release used
        return "budget spent"
    return _PARAMETER_NAMES.get(name, figure_name(name))


def _is_empty(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    # The number 0 is a fact; None, False and empty texts and lists are not shown.
    empty = value is None or value is False or (not isinstance(value, int | float) and not value)
    return empty or (isinstance(value, str) and _DIGEST.fullmatch(value) is not None)


def _fact(name: str, value: Any) -> str:
    if value is True:
        return "yes"
    if name == "suppress" and isinstance(value, str) and "/" not in value:
        return share(float(value))
    if isinstance(value, dict):
        value = {key: item for key, item in value.items() if not _is_empty(item)}
    text = figure_text(name, value)
    return _SUPPRESSED.get(text, text) if name == "suppressed" else text


def about_release(provenance: Provenance, facts: Mapping[str, Any]) -> list[Block]:
    """Show the name and columns of a release, its date and its maker."""
    facts = {**facts, "date": provenance.made, "made by": provenance.by}
    return [facts_table("About this release", facts)] if any(facts.values()) else []


def verify_release(release: Release, files: Mapping[str, str]) -> list[Block]:
    """Show how to check the files and the guarantee of a release, and how it was made.

    `files` has the SHA-256 of each written file; names of files in a folder begin with the folder.
    """
    few = 0 < len(files) <= _MOST_DIGESTS
    blocks = digests(files, "released") if few else [Paragraph(_SIDECAR_HAS_DIGESTS)]
    provenance, left_out = release.provenance, _SHOWN_ELSEWHERE | _FOR_PROGRAMS
    parameters = {
        "algorithm": provenance.method.removeprefix("publish "),
        **{name: value for name, value in provenance.parameters.items() if name not in left_out},
        "version": provenance.version,
    }
    blocks += _promise_commands(release, files)
    blocks += [Heading("How it was made", 3), facts_table("Parameters", parameters)]
    if release.holder is not None:
        lines = SignatureLines(("Checked by", "Date", "Signature"))
        blocks += [Heading("Checked", 3), lines]
    return blocks


def digests(files: Mapping[str, str], action: str) -> list[Block]:
    """Return commands that check whether files are still those that were, say, "released"."""
    if not files:
        return []
    lines = [f"echo {quote(f'{digest}  {name}')} | sha256sum -c" for name, digest in files.items()]
    subject = "the file is" if len(files) == 1 else f"the {count(len(files), 'file')} are"
    return [Commands(f"Check that {subject} what was {action} (SHA-256)", lines)]


def _promise_commands(release: Release, files: Mapping[str, str]) -> list[Block]:
    """Return commands that check the guarantee of a release."""
    facts = release.guarantee.parameters
    if release.guarantee.kind == PRIVATE:
        if release.receipt is None:
            return []
        caption = f"Check in the vault that receipt {release.receipt} was charged"
        return [Commands(caption, ["sfumato ledger verify", "sfumato ledger show"])]
    if not facts.get("k"):
        return []
    folders = {name.rpartition("/")[0] for name in files}
    paths = folders if all(folders) else files.keys()
    name = quote(next(iter(paths))) if len(paths) == 1 else "RELEASE"
    caption = f"Check the guarantee of the release: k must be {facts['k']:,} or more"
    return [Commands(caption, [f"sfumato measure {name} --schema SCHEMA.toml"])]
