from __future__ import annotations

import numpy as np

from sfumato.data.counting.grouping import ragged


def test_runs_come_one_after_the_other() -> None:
    assert ragged(np.array([5, 0, 9]), np.array([2, 0, 3])).tolist() == [5, 6, 9, 10, 11]
    nothing = np.zeros(0, dtype=np.int64)
    assert ragged(nothing, nothing).tolist() == []
