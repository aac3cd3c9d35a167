"""What the demo shows of paths: points tell people apart, and a twin leads to nobody."""

from __future__ import annotations

import re
from typing import Any

from sfumato.demo.sections import trajectories
from sfumato.report.blocks import Paragraph


def test_points_find_people_and_the_twin_finds_no_more_than_strangers() -> None:
    town: Any = None
    [told] = [one for one in trajectories.section(town) if isinstance(one, Paragraph)]
    before, after, strangers = (float(one) for one in re.findall(r"([\d.]+) %", told.text))
    assert before > 90
    assert after <= strangers + 5
