"""Questions that come again: planned once, whoever asks them and at whatever price.

A plan follows from the words of a question and from what is declared, and nobody changes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from sfumato.methods.query.plan.planner import plan_question

if TYPE_CHECKING:
    from sfumato.methods.query.plan.planner import PlannedQuestion
    from sfumato.methods.query.sql.tables import Catalogue

    Words = tuple[str, tuple[tuple[str, int], ...]]

_MOST = 1024
_LONGEST = 4096


class RepeatedQuestions:
    """The plans of the questions in SQL that were asked last, against declarations that stand."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # Declarations are told apart by identity, so each is kept as long as a plan of it is.
        self._plans: OrderedDict[Words, tuple[PlannedQuestion, tuple[object, ...]]] = OrderedDict()

    def plan(self, question: object, catalogue: Catalogue) -> PlannedQuestion:
        """Plan a question, or find its plan."""
        is_stable = isinstance(catalogue, dict)  # else each declaration would be fetched for its id
        if not is_stable or not isinstance(question, str) or len(question) > _LONGEST:
            return plan_question(question, catalogue)
        cache_key = (
            question,
            tuple((name, id(declaration)) for name, declaration in catalogue.items()),
        )
        with self._lock:
            if cache_key in self._plans:
                self._plans.move_to_end(cache_key)
                return self._plans[cache_key][0]
        planned = plan_question(question, catalogue)
        with self._lock:
            self._plans[cache_key] = planned, tuple(catalogue.values())
            if len(self._plans) > _MOST:
                self._plans.popitem(last=False)
        return planned
