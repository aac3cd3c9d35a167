"""Random words that both sides are given: Python's mechanism and the script of the page."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.methods.local import oracle
from sfumato.methods.local.frequency_oracles import KAry
from sfumato.methods.local.reports import to_wire
from sfumato.methods.local.survey_page import script_facts
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from numpy.typing import NDArray

TOP = (1 << 64) - 1


class PreparedWords:
    """Gives the words that it was given, in order."""

    def __init__(self, words: list[int]) -> None:
        self._words, self.used = words, 0

    def words(self, count: int) -> NDArray[np.uint64]:
        self.used += count
        return np.array(self._words[self.used - count : self.used], dtype=np.uint64)


@dataclass(frozen=True)
class Draw:
    """One answer, what the script knows of the round, the words, and Python's report of it."""

    round: dict[str, object]
    answer: int
    words: list[str]
    report: object
    used: int


def draws() -> list[Draw]:
    """Answers of small and large rounds at several epsilons, with words that are drawn again."""
    source = SeededEntropy(2027)
    found = []
    for size, epsilon in product((2, 3, 7, 100, 1000), ("0.1", "1", "log(3)", "4", "20")):
        choices = [f"choice {number}" for number in range(size)]
        mechanism = oracle("k-ary" if size > 2 else "warner", domain=choices, epsilon=epsilon)
        assert isinstance(mechanism, KAry)
        for trial in range(12):
            words = source.words(64).tolist()
            # The largest words are beyond the last multiple of most limits; then its very edge.
            truth, lie = mechanism.weights
            edge = (TOP + 1) % (truth + (size - 1) * lie)
            beyond = [TOP, TOP - edge // 2, TOP - edge + 1, TOP - edge][: trial % 5]
            words[: len(beyond)] = beyond
            answer = (trial * 37) % size
            given = PreparedWords(words)
            reports = mechanism.randomize([choices[answer]], given)
            report: Any = to_wire(mechanism.layout, reports.rows[0])
            told = {"id": "x", "choices": choices, **script_facts(mechanism)}
            found.append(Draw(told, answer, list(map(str, words)), report, given.used))
    return found
