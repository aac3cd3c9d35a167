"""What a client remembers of its own answers: a small file on the person's device, and no other.

The file holds true values, so it is readable by its owner alone and never sent. A permanent answer
is on the disk before a report made of it is given out: a crash in between costs nothing, and no
value is ever answered from two of them. Two processes of one person take turns by a lock.

A lifetime bounds what all reports tell apart any two histories of values, returns included. It
allows so many different values: when they are used up, a value that is new is reported as the last
one that was allowed, because silence would tell that something changed. And it allows so many
reports, which are counted before they are given out; after the last of them the diary refuses. The
number is known from the lifetime alone, so that the refusal tells nothing. The lifetime is written
down with the first answer, and a longer one is taken only from who says so. Decision
`local-promises`.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import BudgetError, LedgerError, ParameterError, SourceError
from sfumato.filesystem import PATIENCE_SECONDS, acquire_lock, check_target, whole
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.reports import check_same
from sfumato.platform_support import locks
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction
    from pathlib import Path

    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.longitudinal import Longitudinal
    from sfumato.methods.local.reports import Reports
    from sfumato.privacy.noise.entropy import Entropy

_VERSION = 3
_UNCOUNTED = 2


@dataclass(frozen=True)
class _Memory:
    """What the file holds."""

    answers: dict[str, int]
    """Permanent answers by value, in the order in which they were drawn."""
    reports: int
    settled: LocalEpsilon
    """The longest lifetime that was ever agreed to."""


class Diary(Shown):
    """One person's permanent answers, each drawn once, and how many more there may be."""

    def __init__(
        self, oracle: Longitudinal, path: Path, lifetime: LocalEpsilon, *, extend: bool = False
    ) -> None:
        self.oracle, self.path, self.lifetime, self._extend = oracle, path, lifetime, extend

    @property
    def most(self) -> int:
        """How many different values the lifetime allows, of those that there are."""
        return self._values_of(self.lifetime)

    def _values_of(self, lifetime: LocalEpsilon) -> int:
        return min(int(lifetime.lower / self.oracle.forever.upper), self.oracle.size)

    @property
    def used(self) -> int:
        """How many different values have been answered about."""
        return len(self._read().answers)

    @property
    def reports(self) -> int:
        """How many reports have been given."""
        return self._read().reports

    @property
    def spent(self) -> float:
        """What all reports so far tell apart any two histories of values, at most."""
        memory = self._read()
        return float(self._charge(memory.reports, memory.settled))

    @property
    def spent_same_pattern(self) -> float:
        """What all reports, so far and to come, tell while no other value is answered about.

        Among histories in which the same reports share a value alone: that values change, and that
        they return, is not hidden by it.
        """
        return float(self.oracle.same_pattern_epsilon(self.used))

    def _charge(self, reports: int, settled: LocalEpsilon) -> Fraction:
        """By the longest lifetime ever settled: under it as many values may have been used."""
        return self.oracle.any_history_epsilon(reports, self._values_of(settled))

    def report(self, value: object, entropy: Entropy | None = None) -> Reports:
        """Make a report of today's value: of its permanent answer, which is drawn if it is new.

        A new value beyond the lifetime is reported as the last one before. A report beyond the
        lifetime is refused.
        """
        codes = self.oracle.choices.codes([value])
        source = entropy or SystemEntropy()
        with self._turn():
            memory = self._read()
            if self._charge(memory.reports + 1, memory.settled) > self.lifetime.lower:
                raise BudgetError(
                    "allowance_exhausted",
                    f"A lifetime of epsilon {self.lifetime} covers {memory.reports:,} reports of "
                    f"values that may change among {self.most:,}, and they were given. Extend the "
                    "lifetime, or report no more.",
                )
            answers, code = memory.answers, str(int(codes[0]))
            if code not in answers and len(answers) < self.most:
                answers[code] = int(self.oracle.remember(codes, source)[0])
            answer = answers.get(code, list(answers.values())[-1])
            self._write(_Memory(answers, memory.reports + 1, memory.settled))
        return self.oracle.tell(np.array([answer]), source)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one process of this person answer at a time."""
        if locks is None:
            yield
            return
        # A file of its own: the diary itself is replaced whole.
        handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not acquire_lock(handle, seconds=PATIENCE_SECONDS):
                raise LedgerError(
                    "file_in_use",
                    "Another program is answering from the same diary. Wait for it, and try again.",
                )
            yield
        finally:
            os.close(handle)

    def _read(self) -> _Memory:
        """What the file holds."""
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return _Memory({}, 0, self.lifetime)
        except (OSError, ValueError):
            record = None
        if isinstance(record, dict) and record.get("version") == _UNCOUNTED:
            raise SourceError(
                "file_malformed",
                f"The diary {self.path.name!r} was begun by an earlier version, which counted no "
                "reports: what it has told is not known. Move it away and begin another; what the "
                "two tell adds up.",
            )
        answers: Any = record.get("answers") if isinstance(record, dict) else None
        if (
            not isinstance(record, dict)
            or record.get("version") != _VERSION
            or not isinstance(record.get("made_by"), dict)
            or not isinstance(record.get("lifetime"), str)
            or type(record.get("reports")) is not int
            or not self._sound(answers)
            or record["reports"] < max(len(answers), 1)
        ):
            raise SourceError(
                "file_malformed",
                f"The diary {self.path.name!r} cannot be read, so its permanent answers are lost. "
                "Drawing them anew costs their epsilon again: do so by removing the file.",
            )
        check_same(record["made_by"], self.oracle.made_by, "Diaries")
        settled = level(record["lifetime"])
        self._check_lifetime(settled)
        longest = max(settled, self.lifetime, key=lambda lifetime: lifetime.lower)
        return _Memory({str(code): answer for code, answer in answers}, record["reports"], longest)

    def _check_lifetime(self, settled: LocalEpsilon) -> None:
        if self.lifetime.lower > settled.lower and not self._extend:
            raise ParameterError(
                "parameter_out_of_range",
                f"This diary was begun for a lifetime of epsilon {settled}, not {self.lifetime}. "
                f"Give lifetime='{settled}', or extend=True where its owner wants to spend more.",
            )

    def _sound(self, answers: Any) -> bool:
        size = self.oracle.size
        return isinstance(answers, list) and all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(type(code) is int and 0 <= code < size for code in pair)
            for pair in answers
        )

    def _write(self, memory: _Memory) -> None:
        record = {
            "version": _VERSION,
            "made_by": self.oracle.made_by,
            "lifetime": str(memory.settled),
            "reports": memory.reports,
            "answers": [[int(code), answer] for code, answer in memory.answers.items()],
        }
        with whole(self.path, overwrite=True, private=True) as temporary:
            temporary.write_text(dumps(record) + "\n", encoding="utf-8")

    def _card(self) -> Card:
        line = (
            f"{self.reports} reports about {self.used} of {self.most} values, epsilon "
            f"{self.spent:.4g} of {self.lifetime}"
        )
        facts = {
            "values answered about": self.used,
            "values allowed": self.most,
            "reports given": self.reports,
            "epsilon of a report": str(self.oracle.level),
            "epsilon of a value, for ever": str(self.oracle.forever),
            "epsilon of all reports, for any two histories": self.spent,
            "for histories of the same pattern": self.spent_same_pattern,
            "epsilon of the lifetime": str(self.lifetime),
        }
        return Card(line, facts)


def open_diary(
    oracle: Longitudinal, path: str | Path, lifetime: Number | LocalEpsilon, *, extend: bool
) -> Diary:
    """The diary in a file, which need not be there yet."""
    file = arguments.path(path, "path")
    check_target(file, overwrite=True)
    diary = Diary(oracle, file, level(lifetime), extend=arguments.flag(extend, "extend"))
    if diary.most < 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"A lifetime of epsilon {diary.lifetime} does not allow one value, which costs "
            f"{oracle.forever}. Give a lifetime of at least that.",
        )
    return diary
