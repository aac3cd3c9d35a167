"""Workload: how far answers on the released table are from those on the original."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.errors import ParameterError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sfumato.anonymize.worlds.bounds import AnswerBounds

    Answering = Callable[[str], AnswerBounds]


@dataclass(frozen=True)
class Workload:
    """The error of each question, and their mean; None where an answer does not exist."""

    errors: tuple[float | None, ...]

    @property
    def mean(self) -> float | None:
        """The mean over the questions that have an answer on both tables."""
        known = [error for error in self.errors if error is not None]
        return sum(known) / len(known) if known else None

    def json(self) -> dict[str, object]:
        """All of it, ready to be written."""
        return {"mean": self.mean, "errors": list(self.errors)}


def workload(questions: Sequence[str], original: Answering, released: Answering) -> Workload:
    """The mean relative error of aggregate questions on a release, both tables answering them.

    *Guarantee*: |estimate - true| / max(|true|, 1) of each question, the estimate being the one
    that takes labels as uniform.
    *Error*: float64.
    *Edges*: below 1 the error is absolute; questions without an answer on either table (a mean of
    no rows, a sum over unknown numbers) are left out of the mean.
    *Reference*: LeFevre, DeWitt and Ramakrishnan 2006; Xiao and Tao 2006.
    """
    if not questions:
        raise ParameterError(
            "workload_empty", "A workload needs at least one question. Give some aggregates in SQL."
        )
    errors = []
    for question in questions:
        true, found = original(question).estimate, released(question).estimate
        known = true is not None and found is not None
        errors.append(abs(found - true) / max(abs(true), 1.0) if known else None)  # type: ignore[operator,arg-type]
    return Workload(tuple(errors))
