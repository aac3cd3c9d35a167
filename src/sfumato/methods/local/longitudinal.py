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

from fractions import Fraction
from functools import cached_property
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.draws import LARGEST_TOTAL
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.frequency_oracles import odds_of, respond
from sfumato.methods.local.mechanism import Channel, SupportOracle, room_for, tallied
from sfumato.methods.local.reports import Code, ReportLayout, Reports
from sfumato.privacy.accounting.elementary import log_up
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.diary import Diary
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
        self.forever = level(forever)
        super().__init__(domain, epsilon=epsilon)

    def _prepare(self) -> None:
        if not float(self.level) < float(self.forever):
            raise ParameterError(
                "parameter_out_of_range",
                f"forever must be above epsilon {self.level}, because all reports tell more than "
                f"one, not {self.forever}. Twice epsilon is usual.",
            )
        size = self.size
        self.permanent = odds_of(self.forever, size)
        first, kept_lie = _chances(self.permanent, size)
        odds = self.level.rational(64)
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
        room_for(size, size**reports)
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
        from sfumato.methods.local.diary import open_diary

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

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return tallied(rows["report"], self.size)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return tallied(rows["report"], self.size, times)


def _chances(weights: tuple[int, int], size: int) -> tuple[Fraction, Fraction]:
    """The chances of the truth and of one given lie."""
    truth, lie = weights
    total = truth + (size - 1) * lie
    return Fraction(truth, total), Fraction(lie, total)
