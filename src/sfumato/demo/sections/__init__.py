"""The sections of the demo page, in order. A method adds one file here and one line below."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato.demo.sections import (
    anonymize,
    attack,
    graphs,
    itemsets,
    learn,
    local,
    publish,
    questions,
    risk,
    synthesize,
    trajectories,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block

SECTIONS: tuple[Callable[[Town], list[Block]], ...] = (
    risk.section,
    anonymize.section,
    questions.section,
    publish.section,
    synthesize.section,
    learn.section,
    itemsets.section,
    graphs.section,
    trajectories.section,
    attack.section,
    local.section,
)
