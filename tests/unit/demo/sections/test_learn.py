"""What the demo's models tell of others is better than the usual, and it says of whom."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np

from sfumato.demo import town
from sfumato.demo.sections import learn
from sfumato.report.blocks import Paragraph
from sfumato.report.picture import Picture


def test_models_of_the_town_beat_the_usual_at_the_highest_price() -> None:
    people = town.table(6_000)
    sick = np.array(learn.health(people)["ill"].to_pylist())
    usual = max(np.mean(sick[:1_500] == answer) for answer in ("no", "yes"))
    held: Any = SimpleNamespace(people=people)
    blocks = learn.section(held)
    (picture,) = (block for block in blocks if isinstance(block, Picture))
    (paragraph,) = (block for block in blocks if isinstance(block, Paragraph))
    assert "4,500 people" in paragraph.text
    assert f"is right for {100 * usual:.0f} %." in paragraph.text
    best = [
        float(str(share)) for name, epsilon, share in picture.table.rows if float(str(epsilon)) == 1
    ]
    assert len(best) == 2
    # Age tells much: without noise these models are right of about two thirds.
    assert max(best) > usual + 0.03
