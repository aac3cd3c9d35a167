"""The parts that every page has, whatever door it comes from: one order, one set of words.

A door fills in the parts that it has; how they are called and which comes first is said here.
Decision 0298.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.attack.page import FAILED, TITLE, failed_blocks, tried_blocks
from sfumato.report.blocks import Heading, Note, Paragraph
from sfumato.report.page import render

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attack.finding import Findings
    from sfumato.report.blocks import Block

RELEASED, LOOKED_AT = "What was released", "What was looked at"
GUARANTEED = "What is guaranteed"
OPEN = "What it does not protect against"
UTILITY = "What it is good for"
VERIFY = "How to verify"
FINDINGS_TRAVEL = (
    "This page may be shown to anyone, by decision of its owner: beside what was released it tells "
    "what attacks found, which was computed from the original rows and is covered by no guarantee."
)
_UNTRIED = (
    "No {other}attack was tried for this page, which is no sign of safety. What an attacker still "
    "gets, sfumato attack all tells its owner."
)
_NOT_TOLD = (
    "What attacks find is computed from the original, so it is told to its owner alone and does "
    "not stand here."
)


@dataclass(frozen=True, kw_only=True)
class ReportParts:
    """What a door has to say. `promise` is the guarantee in one plain sentence.

    A page that is `private` was computed from rows of people, and stays with their owner. `found`
    is what stands with the attacks that were tried; `released` says whether it is of a release.
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
    found: Sequence[Block] = ()
    findings: Findings | None = None
    verify: Sequence[Block] = ()
    version: str = __version__


def report_page(parts: ReportParts) -> str:
    """The whole page."""
    blocks: list[Block] = [Note(parts.audience, warning=parts.private)]
    for heading, content in _sections(parts).items():
        blocks += [Heading(heading), *content] if content else []
    footer = f"Made by Sfumato {parts.version}. {parts.audience}"
    return render(parts.title, blocks, lead=parts.promise, footer=footer)


def _sections(parts: ReportParts) -> dict[str, Sequence[Block]]:
    """The parts under their names, in order."""
    findings = parts.findings
    failed = [] if findings is None else failed_blocks(findings)
    return {
        RELEASED if parts.released else LOOKED_AT: parts.subject,
        GUARANTEED: parts.guarantee,
        OPEN: parts.limits,
        UTILITY: parts.utility,
        TITLE: [*parts.found, *_tried(parts)],
        FAILED: failed,
        VERIFY: parts.verify,
    }


def _tried(parts: ReportParts) -> list[Block]:
    """The attacks; where none is told of, why."""
    if parts.findings is not None:
        return tried_blocks(parts.findings)
    other = "other " if parts.found else ""
    return [Paragraph(_UNTRIED.format(other=other) if parts.private else _NOT_TOLD)]
