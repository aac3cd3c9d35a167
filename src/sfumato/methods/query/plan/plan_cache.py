"""A cache of plans: a repeated query is planned once, for all principals and prices.

A plan depends only on the text of a question and on declarations, and it is immutable.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING

from sfumato.methods.query.plan.planner import plan_question

if TYPE_CHECKING:
    from sfumato.methods.query.plan.planner import PlannedQuestion
    from sfumato.methods.query.sql.tables import Catalogue

    CacheKey = tuple[str, tuple[tuple[str, int], ...]]

_MOST = 1024
_LONGEST = 4096


class RepeatedQuestions:
    """The plans of the latest questions in SQL, as long as their declarations do not change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        # The key contains the id of each declaration; the stored reference keeps the id from being
        # used again by another object.
        self._plans: OrderedDict[CacheKey, tuple[PlannedQuestion, tuple[object, ...]]] = (
            OrderedDict()
        )

    def plan(self, question: object, catalogue: Catalogue) -> PlannedQuestion:
        """Plan a question, or find its plan."""
        is_stable = isinstance(catalogue, dict)  # others load declarations anew, with new ids
        if not is_stable or not isinstance(question, str) or len(question) > _LONGEST:
            return plan_question(question, catalogue)
        cache_key = (
            question,
            tuple((name, id(declaration)) for name, declaration in catalogue.items()),
        )
        # Planning takes milliseconds and runs outside of the lock; two threads may plan one query
        # twice.
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
