"""Longitudinal reports: a permanent answer for each value, randomized again for every report.

Fresh noise on every day averages away. So a person draws a *permanent* answer for each value once,
at epsilon `forever`, and never again; every report randomizes that answer once more. One report
reveals epsilon; any number of reports about one value that stays reveals `forever`.

Values may change and return. Let F be `forever`, I the log of the second round's odds
(`instant_epsilon`) and T the number of reports. Two bounds hold:

(i) Two histories with the same *pattern of equality* (the same reports share a value, returns
included) differ by at most the sum of F over their distinct values: permanent answers are
independent, each drawn at F.

(ii) Any two histories differ by at most min(T I, k F + c I), where c reports must be altered until
the patterns agree and k values are distinct then: a report made of another permanent answer
changes by at most I. For histories of at most m values, c <= T - T/m: of m disjoint matchings
between the values of both histories, one has at least T/m reports in common.

It is not enough for (i) that values change on the same days: A..B..A and A..B..C do so, and many
days reveal which of the two it was. T epsilon is no bound either, because reports of one permanent
answer are not independent. Decision `local-privacy`.

Let p and q be the probabilities of the truth and of each lie, in the permanent round (1) and the
instantaneous round (2). A report is the truth with probability p1 p2 + (k - 1) q1 q2, each lie with
p1 q2 + q1 p2 + (k - 2) q1 q2. The odds of the second round are the largest rational for which the
ratio of these two is at most e^epsilon; the estimate inverts both rounds at once.
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
from sfumato.methods.local.frequency_oracles import odds_of, respond
from sfumato.methods.local.local_epsilon import read_epsilon
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
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy


class Longitudinal(SupportOracle):
    """Randomize a permanent randomized response again for every report.

    *Guarantee*: one report is epsilon-LDP. All reports that a person ever gives are `forever`-LDP
    while the value stays. Among histories of the same pattern of equality they are `forever`-LDP
    for each distinct value; among any histories of m values and T reports they are
    `any_history_epsilon(T, m)`-LDP, which grows with T: whether and when a value has changed or
    returned is hidden by the second round alone.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), with p and q of both rounds.
    *Edges*: `forever` must be above epsilon. `randomize` draws both rounds anew, for people who
    report once; a person who reports repeatedly keeps a diary, by `diary`.
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
                f"forever must be above epsilon {self.epsilon}, because many reports reveal more "
                f"than one, not {self.forever}. Twice epsilon is usual.",
                parameter="forever",
                given=self.forever,
            )
        size = self.size
        self.permanent = odds_of(self.forever, size)
        first, kept_lie = _chances(self.permanent, size)
        odds = self.epsilon.rational(64)
        # The second round's odds r solve (p1 r + (k - 1) q1) / (p1 + q1 r + (k - 2) q1) = odds.
        numerator = odds * (first + (size - 2) * kept_lie) - (size - 1) * kept_lie
        second = numerator / (first - odds * kept_lie)
        bits = max(8, LARGEST_TOTAL.bit_length() - 2 - (size + int(second) + 1).bit_length())
        # Rounded down, so that a report never realises more than epsilon.
        scale = 1 << min(bits, 40)
        rounded = Fraction((second * scale).__floor__(), scale)
        self.instant = rounded.numerator, rounded.denominator
        again, lie = _chances(self.instant, size)
        self.p = first * again + (size - 1) * kept_lie * lie
        self.q = first * lie + kept_lie * again + (size - 2) * kept_lie * lie
        self.layout = ReportLayout((Code("report", size),))

    def options(self) -> dict[str, Any]:
        """The epsilon of all reports about one value."""
        return {"forever": str(self.forever)}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of one report's probabilities between two values, exactly."""
        return self.p / self.q

    @cached_property
    def instant_epsilon(self) -> Fraction:
        """I: the log of the second round's odds, rounded up."""
        return log_up(Fraction(*self.instant))

    def same_pattern_epsilon(self, values: int) -> Fraction:
        """Bound (i): the epsilon of all reports between histories of one pattern of equality."""
        return values * self.forever.upper

    def any_history_epsilon(self, reports: int, values: int) -> Fraction:
        """Bound (ii): the epsilon of T reports between any two histories of at most m values."""
        # T - ceil(T / m): the most reports to alter until the patterns agree.
        altered = reports - -(-reports // values)
        patterns = self.same_pattern_epsilon(values) + altered * self.instant_epsilon
        return min(reports * self.instant_epsilon, patterns)

    def channel(self, reports: int = 1) -> Channel:
        """The exact matrix of probabilities of so many reports about one value that stays."""
        size = self.size
        if arguments.whole(reports, "reports") < 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"reports must be at least 1, not {reports}.",
                parameter="reports",
                given=reports,
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
        """Draw permanent answers: the caller keeps them and never draws them again."""
        return respond(codes, self.size, self.permanent, entropy)

    def tell(self, answers: IntArray, entropy: Entropy | None = None) -> Reports:
        """Make reports of permanent answers."""
        rows = self.layout.empty(len(answers))
        rows["report"] = respond(answers, self.size, self.instant, entropy or SystemEntropy())
        return Reports(self.made_by, self.layout, rows)

    def diary(
        self, path: str | Path, *, lifetime: Number | LocalEpsilon, extend: bool = False
    ) -> Diary:
        """Open the file on a person's device that keeps permanent answers and counts reports.

        Parameters
        ----------
        path : path
            The file; it need not exist yet.
        lifetime : number or LocalEpsilon
            The epsilon of all reports of this person, for any two histories of values.
        extend : bool
            Whether to accept a longer lifetime than the file records.

        Returns
        -------
        Diary
            Its `report` makes the report of today's value.

        Raises
        ------
        ParameterError
            If the lifetime does not allow one value.
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
    """The probabilities of the truth and of each lie."""
    truth, lie = weights
    total = truth + (size - 1) * lie
    return Fraction(truth, total), Fraction(lie, total)


# A diary: the permanent answers of one person, in a small file on their device.
#
# The file holds true values: only its owner may read it, and it is never sent. A permanent answer
# is on the disk before a report made of it is returned, so a crash in between costs nothing and no
# value ever has two permanent answers. Two processes of one person take turns by a lock.
#
# The lifetime is the epsilon of all reports for any two histories of values, returns included.
#
# - It limits the number of different values. Once they are used up, a new value is reported as the
#   last allowed one, because silence would reveal a change.
# - It limits the number of reports. They are counted before they are returned; after the last one
#   the diary refuses. The number follows from the lifetime alone, so refusing reveals nothing.
#
# The lifetime is written with the first answer; a longer one needs `extend`.

_VERSION = 3
_UNCOUNTED = 2


@dataclass(frozen=True)
class _Memory:
    """The content of the file."""

    answers: dict[str, int]
    """Permanent answers by value, in the order in which they were drawn."""
    reports: int
    settled: LocalEpsilon
    """The longest lifetime that the owner ever accepted."""


class Diary(Shown):
    """One person's permanent answers, each drawn once, within a lifetime."""

    def __init__(
        self, oracle: Longitudinal, path: Path, lifetime: LocalEpsilon, *, extend: bool = False
    ) -> None:
        self.oracle, self.path, self.lifetime, self._extend = oracle, path, lifetime, extend

    @property
    def most(self) -> int:
        """The number of different values that the lifetime allows."""
        return self._values_of(self.lifetime)

    def _values_of(self, lifetime: LocalEpsilon) -> int:
        return min(int(lifetime.lower / self.oracle.forever.upper), self.oracle.size)

    @property
    def used(self) -> int:
        """The number of values that have a permanent answer."""
        return len(self._read().answers)

    @property
    def reports(self) -> int:
        """The number of reports so far."""
        return self._read().reports

    @property
    def spent(self) -> float:
        """The epsilon of all reports so far, for any two histories of values."""
        memory = self._read()
        return float(self._charge(memory.reports, memory.settled))

    @property
    def spent_same_pattern(self) -> float:
        """The epsilon of all reports, past and future, while no new value is reported.

        It holds only between histories of one pattern of equality: it does not hide that values
        change or return.
        """
        return float(self.oracle.same_pattern_epsilon(self.used))

    def _charge(self, reports: int, settled: LocalEpsilon) -> Fraction:
        """Bound (ii) for this number of reports.

        The longest lifetime ever accepted counts: so many values may have been used under it.
        """
        return self.oracle.any_history_epsilon(reports, self._values_of(settled))

    def report(self, value: object, entropy: Entropy | None = None) -> Reports:
        """Make a report of today's value from its permanent answer.

        Parameters
        ----------
        value : object
            One declared value. A new value beyond those that the lifetime allows is reported as
            the last allowed one.
        entropy : Entropy, optional
            The source of randomness; the operating system by default.

        Returns
        -------
        Reports
            One report.

        Raises
        ------
        BudgetError
            If the lifetime allows no more reports.
        LedgerError
            If another process uses the file for longer than a few seconds.
        """
        codes = self.oracle.choices.codes([value])
        source = entropy or SystemEntropy()
        with self._turn():
            memory = self._read()
            if self._charge(memory.reports + 1, memory.settled) > self.lifetime.lower:
                raise BudgetError(
                    "allowance_exhausted",
                    f"A lifetime of epsilon {self.lifetime} covers {memory.reports:,} reports of "
                    f"values that may change among {self.most:,}, and all of them were made. "
                    "Extend the lifetime, or stop reporting.",
                )
            answers, code = memory.answers, str(int(codes[0]))
            if code not in answers and len(answers) < self.most:
                answers[code] = int(self.oracle.remember(codes, source)[0])
            answer = answers.get(code, list(answers.values())[-1])
            # Counted on the disk before the report is drawn: a crash loses a report, never a count.
            self._write(_Memory(answers, memory.reports + 1, memory.settled))
        return self.oracle.tell(np.array([answer]), source)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Let one process of this person report at a time."""
        if locks is None:
            yield
            return
        # Locked beside the diary: every write replaces the diary file itself.
        handle = os.open(f"{self.path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if not acquire_lock(handle, seconds=PATIENCE_SECONDS):
                raise LedgerError(
                    "file_in_use",
                    "Another program is using the same diary. Wait for it, then try again.",
                )
            yield
        finally:
            os.close(handle)

    def _read(self) -> _Memory:
        """Read the file and check it."""
        try:
            record = json.loads(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return _Memory({}, 0, self.lifetime)
        except (OSError, ValueError):
            record = None
        if isinstance(record, dict) and record.get("version") == _UNCOUNTED:
            raise SourceError(
                "file_malformed",
                f"The diary {self.path.name!r} is of an earlier version, which counted no reports, "
                "so its cost is unknown. Move it away and begin another; the costs of both add up.",
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
                f"This diary has a lifetime of epsilon {settled}, not {self.lifetime}. "
                f"Give lifetime='{settled}', or extend=True if its owner wants to spend more.",
                parameter="lifetime",
                given=self.lifetime,
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
    """Open a diary; see `Longitudinal.diary`."""
    file = arguments.path(path, "path")
    check_target(file, overwrite=True)
    diary = Diary(oracle, file, read_epsilon(lifetime), extend=arguments.flag(extend, "extend"))
    if diary.most < 1:
        raise ParameterError(
            "parameter_out_of_range",
            f"A lifetime of epsilon {diary.lifetime} does not allow one value, which costs "
            f"{oracle.forever}. Give a lifetime of at least that.",
            parameter="lifetime",
        )
    return diary
