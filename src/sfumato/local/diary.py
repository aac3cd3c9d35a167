"""What a client remembers of its own answers: a small file on the person's device, and no other.

The file holds true values, so it is readable by its owner alone and never sent. A permanent answer
is on the disk before a report made of it is given out: a crash in between costs nothing, and no
value is ever answered from two of them. Two processes of one person take turns by a lock.

A lifetime allows so many different values. When they are used up, a value that is new is reported
as the last one that was allowed: silence would tell that something changed. The lifetime is written
down with the first answer, and a longer one is taken only from who says so. Decision 0335.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import given
from sfumato.cards import Card, Shown
from sfumato.errors import LedgerError, ParameterError, SourceError
from sfumato.files import PATIENCE_SECONDS, acquire_lock, check_target, whole
from sfumato.local.level import level
from sfumato.local.reports import check_same
from sfumato.noise.entropy import SystemEntropy
from sfumato.system import locks
from sfumato.texts import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from sfumato.local.level import LocalEpsilon
    from sfumato.local.longitudinal import Longitudinal
    from sfumato.local.reports import Reports
    from sfumato.noise.entropy import Entropy
    from sfumato.privacy.numbers import Number

_VERSION = 2


class Diary(Shown):
    """One person's permanent answers, each drawn once, and how many more there may be."""

    def __init__(
        self, oracle: Longitudinal, path: Path, lifetime: LocalEpsilon, *, extend: bool = False
    ) -> None:
        self.oracle, self.path, self.lifetime, self._extend = oracle, path, lifetime, extend

    @property
    def most(self) -> int:
        """How many different values the lifetime allows."""
        return int(self.lifetime.lower / self.oracle.forever.upper)

    @property
    def used(self) -> int:
        """How many different values have been answered about."""
        return len(self._read())

    @property
    def spent(self) -> float:
        """The epsilon of all reports so far and to come, while no other value is answered about."""
        return self.used * float(self.oracle.forever)

    def report(self, value: object, entropy: Entropy | None = None) -> Reports:
        """Make a report of today's value: of its permanent answer, which is drawn if it is new.

        A new value beyond the lifetime is reported as the last one before.
        """
        codes = self.oracle.choices.codes([value])
        source = entropy or SystemEntropy()
        with self._turn():
            kept = self._read()
            code = str(int(codes[0]))
            if code not in kept and len(kept) < self.most:
                kept[code] = int(self.oracle.remember(codes, source)[0])
                self._write(kept)
            answer = kept.get(code, list(kept.values())[-1])
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
                    "diary_in_use",
                    "Another program is answering from the same diary. Wait for it, and try again.",
                )
            yield
        finally:
            os.close(handle)

    def _read(self) -> dict[str, int]:
        """Permanent answers by value, in the order in which they were drawn."""
        try:
            told = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError):
            told = None
        kept: Any = told.get("answers") if isinstance(told, dict) else None
        if (
            not isinstance(told, dict)
            or told.get("version") != _VERSION
            or not isinstance(told.get("made_by"), dict)
            or not isinstance(told.get("lifetime"), str)
            or not self._sound(kept)
        ):
            raise SourceError(
                "diary_unreadable",
                f"The diary {self.path.name!r} cannot be read, so its permanent answers are lost. "
                "Drawing them anew costs their epsilon again: do so by removing the file.",
            )
        check_same(told["made_by"], self.oracle.made_by, "Diaries")
        self._check_lifetime(level(told["lifetime"]))
        return {str(code): answer for code, answer in kept}

    def _check_lifetime(self, settled: LocalEpsilon) -> None:
        if self.lifetime.lower > settled.lower and not self._extend:
            raise ParameterError(
                "lifetime_longer",
                f"This diary was begun for a lifetime of epsilon {settled}, not {self.lifetime}. "
                f"Give lifetime='{settled}', or extend=True where its owner wants to spend more.",
            )

    def _sound(self, kept: Any) -> bool:
        size = self.oracle.size
        return isinstance(kept, list) and all(
            isinstance(pair, list)
            and len(pair) == 2
            and all(type(one) is int and 0 <= one < size for one in pair)
            for pair in kept
        )

    def _write(self, kept: dict[str, int]) -> None:
        answers = [[int(code), answer] for code, answer in kept.items()]
        told = {
            "version": _VERSION,
            "made_by": self.oracle.made_by,
            "lifetime": str(self.lifetime),
            "answers": answers,
        }
        with whole(self.path, overwrite=True, private=True) as temporary:
            temporary.write_text(dumps(told) + "\n", encoding="utf-8")

    def _card(self) -> Card:
        line = (
            f"{self.used} of {self.most} values answered about, epsilon {self.oracle.forever} each"
        )
        facts = {
            "values answered about": self.used,
            "values allowed": self.most,
            "epsilon of a report": str(self.oracle.level),
            "epsilon of a value, for ever": str(self.oracle.forever),
            "epsilon of the lifetime": str(self.lifetime),
        }
        return Card(line, facts)


def open_diary(
    oracle: Longitudinal, path: str | Path, lifetime: Number | LocalEpsilon, *, extend: bool
) -> Diary:
    """The diary in a file, which need not be there yet."""
    place = given.path(path, "path")
    check_target(place, overwrite=True)
    found = Diary(oracle, place, level(lifetime), extend=given.flag(extend, "extend"))
    if found.most < 1:
        raise ParameterError(
            "lifetime_too_short",
            f"A lifetime of epsilon {found.lifetime} does not allow one value, which costs "
            f"{oracle.forever}. Give a lifetime of at least that.",
        )
    return found
