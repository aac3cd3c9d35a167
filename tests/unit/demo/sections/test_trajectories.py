"""What the demo shows of paths: points tell people apart, and a twin leads to nobody."""

from __future__ import annotations

import re
from typing import Any

from sfumato.demo.sections import trajectories
from sfumato.report.blocks import Paragraph


def test_points_find_people_and_the_twin_finds_no_more_than_strangers() -> None:
    town: Any = None
    [paragraph] = [block for block in trajectories.section(town) if isinstance(block, Paragraph)]
    before, after, strangers = (float(block) for block in re.findall(r"([\d.]+) %", paragraph.text))
    assert before > 90
    assert after <= strangers + 5
