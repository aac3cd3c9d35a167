"""The same question again and again: an answer that is remembered, told anew with fresh noise.

Fresh noise every day would wear off: the average of many reports is the truth. So a person draws a
*permanent* answer for each value once, at `forever`, and never again; every report is that answer
randomized once more. One report tells epsilon, any number of them about one value `forever`.

Values that change and return are another matter. With F for `forever`, I for the log of the second
round's odds (`instant_epsilon`) and T reports:

(i) Two histories of the same *pattern of equality*, in which the same reports share a value,
returns included, differ by at most the sum of F over their distinct values: permanent answers are
independent, each drawn at F.

(ii) Any two histories differ by at most min(T I, k F + c I), with c for the reports to alter until
the patterns agree and k for the distinct values then: a report moves by at most I when it is made
of another permanent answer. For histories of at most m values c is at most T - T/m: of m disjoint
ways to match the values of one with those of the other, one way has T/m reports in common.

That values change on the same days is not enough for (i): A..B..A and A..B..C do so, and over many
days anybody sees which of the two it was. T times epsilon is no bound either, as reports of one
permanent answer are not independent. Decision `local-promises`.

With p, q the chances of the truth and of one given lie, in the permanent round (1) and the
instantaneous one (2), a report is the truth with p1 p2 + (k - 1) q1 q2, one given lie with p1 q2 +
q1 p2 + (k - 2) q1 q2. The odds of the second round are the largest rational for which these two
are at most e^epsilon apart, and the estimate inverts both rounds at once. Decision
`local-promises`.
"""

from __future__ import annotations

import json
import os
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import BudgetError, LedgerError, ParameterError, SourceError
from sfumato.filesystem import PATIENCE_SECONDS, acquire_lock, check_target, whole
from sfumato.methods.local.draws import LARGEST_TOTAL
from sfumato.methods.local.exact_epsilon import read_epsilon
from sfumato.methods.local.frequency_oracles import odds_of, respond
from sfumato.methods.local.mechanism import Channel, SupportOracle, check_channel_size
from sfumato.methods.local.reports import Code, ReportLayout, Reports, check_same
from sfumato.platform_support import locks
from sfumato.privacy.accounting.elementary import log_up
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy


class Longitudinal(SupportOracle):
    """A permanent answer by randomized response, and a fresh one made of it for every report.

    *Guarantee*: one report is epsilon-LDP. All reports that a person ever gives are `forever`-LDP
    while the value stays. Among histories of the same pattern of equality they are `forever`-LDP
    for each distinct value; among any histories of m values and T reports they are
    `any_history_epsilon(T, m)`-LDP, which grows with T: that, and when, a value has changed or
    returned is hidden by the second round alone.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), with p and q of both rounds.
    *Edges*: `forever` must be above epsilon. `randomize` makes both rounds anew, as for people who
    report once; who reports again keeps a diary, by `diary`.
    *Reference*: Erlingsson, Pihur & Korolova 2014; Arcolezi, Couchot, Al Bouna & Xiao 2022.
    """

    name = "longitudinal"
    counted_once = True

    def __init__(
        self,
        domain: object,
        *,
        epsilon: Number | LocalEpsilon,
        forever: Number | LocalEpsilon,
    ) -> None:
        self.forever = read_epsilon(forever)
        super().__init__(domain, epsilon=epsilon)

    def _prepare(self) -> None:
        if not float(self.epsilon) < float(self.forever):
            raise ParameterError(
                "parameter_out_of_range",
                f"forever must be above epsilon {self.epsilon}, because all reports tell more than "
                f"one, not {self.forever}. Twice epsilon is usual.",
            )
        size = self.size
        self.permanent = odds_of(self.forever, size)
        first, kept_lie = _chances(self.permanent, size)
        odds = self.epsilon.rational(64)
        # The second round's odds r solve (p1 r + (k - 1) q1) / (p1 + q1 r + (k - 2) q1) = odds.
        numerator = odds * (first + (size - 2) * kept_lie) - (size - 1) * kept_lie
        second = numerator / (first - odds * kept_lie)
        bits = max(8, LARGEST_TOTAL.bit_length() - 2 - (size + int(second) + 1).bit_length())
        scale = 1 << min(bits, 40)
        rounded = Fraction((second * scale).__floor__(), scale)
        self.instant = rounded.numerator, rounded.denominator
        again, lie = _chances(self.instant, size)
        self.p = first * again + (size - 1) * kept_lie * lie
        self.q = first * lie + kept_lie * again + (size - 2) * kept_lie * lie
        self.layout = ReportLayout((Code("report", size),))

    def options(self) -> dict[str, Any]:
        """What all reports about one value tell."""
        return {"forever": str(self.forever)}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of one report between two values, exactly."""
        return self.p / self.q

    @cached_property
    def instant_epsilon(self) -> Fraction:
        """The log of the second round's odds, rounded up: what a report tells of its answer."""
        return log_up(Fraction(*self.instant))

    def same_pattern_epsilon(self, values: int) -> Fraction:
        """What all reports tell apart histories of one pattern of equality with so many values."""
        return values * self.forever.upper

    def any_history_epsilon(self, reports: int, values: int) -> Fraction:
        """What so many reports tell apart any two histories of at most so many values."""
        altered = reports - -(-reports // values)
        patterns = self.same_pattern_epsilon(values) + altered * self.instant_epsilon
        return min(reports * self.instant_epsilon, patterns)

    def channel(self, reports: int = 1) -> Channel:
        """The exact matrix of chances of so many reports about one value that stays."""
        size = self.size
        if arguments.whole(reports, "reports") < 1:
            raise ParameterError(
                "parameter_out_of_range", f"reports must be at least 1, not {reports}."
            )
        check_channel_size(size, size**reports)
        (truth, lie), (again, lie_again) = self.permanent, self.instant
        rows = [
            [
                sum(
                    (truth if z == x else lie) * prod(again if y == z else lie_again for y in seen)
                    for z in range(size)
                )
                for seen in product(range(size), repeat=reports)
            ]
            for x in range(size)
        ]
        return Channel.of(rows)

    def remember(self, codes: IntArray, entropy: Entropy) -> IntArray:
        """Draw permanent answers; they must be kept, and never be drawn again."""
        return respond(codes, self.size, self.permanent, entropy)

    def tell(self, answers: IntArray, entropy: Entropy | None = None) -> Reports:
        """Make reports of permanent answers."""
        rows = self.layout.empty(len(answers))
        rows["report"] = respond(answers, self.size, self.instant, entropy or SystemEntropy())
        return Reports(self.made_by, self.layout, rows)

    def diary(
        self, path: str | Path, *, lifetime: Number | LocalEpsilon, extend: bool = False
    ) -> Diary:
        """The memory of one person, in a file on their device, with what they spend in all.

        The file remembers its lifetime; a longer one is taken only with `extend`.
        """

        return open_diary(self, path, lifetime, extend=extend)

    def _card(self) -> Card:
        card = super()._card()
        facts = {
            "epsilon of all reports about one value that stays": str(self.forever),
            "epsilon of each report where values change": float(self.instant_epsilon),
        }
        return Card(card.line, {**card.facts, **facts}, notes=card.notes)

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        return self.tell(self.remember(codes, entropy), entropy).rows


def _chances(weights: tuple[int, int], size: int) -> tuple[Fraction, Fraction]:
    """The chances of the truth and of one given lie."""
    truth, lie = weights
    total = truth + (size - 1) * lie
    return Fraction(truth, total), Fraction(lie, total)


# What a client remembers of its own answers: a small file on the person's device, and no other.
#
# The file holds true values, so it is readable by its owner alone and never sent. A permanent
# answer
# is on the disk before a report made of it is given out: a crash in between costs nothing, and no
# value is ever answered from two of them. Two processes of one person take turns by a lock.
#
# A lifetime bounds what all reports tell apart any two histories of values, returns included. It
# allows so many different values: when they are used up, a value that is new is reported as the
# last
# one that was allowed, because silence would tell that something changed. And it allows so many
# reports, which are counted before they are given out; after the last of them the diary refuses.
# The
# number is known from the lifetime alone, so that the refusal tells nothing. The lifetime is
# written
# down with the first answer, and a longer one is taken only from who says so. Decision
# `local-promises`.

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
        settled = read_epsilon(record["lifetime"])
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
            "epsilon of a report": str(self.oracle.epsilon),
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
    diary = Diary(oracle, file, read_epsilon(lifetime), extend=arguments.flag(extend, "extend"))
    if diary.most < 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"A lifetime of epsilon {diary.lifetime} does not allow one value, which costs "
            f"{oracle.forever}. Give a lifetime of at least that.",
        )
    return diary
