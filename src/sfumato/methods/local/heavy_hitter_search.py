"""Heavy hitters: frequent values of a domain that is too large to list, such as words.

People are split into groups, one for each length of prefix. Everybody reports the prefix of that
length, with the whole epsilon, by local hashing. The collector starts with all short prefixes,
keeps those that seem most frequent, extends each by a few bits and looks at the next group. A
frequent value has frequent prefixes, so it survives to the end. People are split rather than
epsilon, because noise falls with the square root of people and linearly with epsilon.

*The hash* of a prefix of c chunks of 30 bits is ((a_1 x_1 + ... + a_c x_c + b) mod P) mod g, with
P = 2^31 - 1 and all a and b drawn uniformly by each person. The residues mod P of two prefixes are
independent and uniform, so they collide with the exact probability sum_r (n_r / P)^2, where n_r
residues mod P have the remainder r mod g. The estimate subtracts it. Decision `local-privacy`.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import pyarrow as pa

from sfumato import arguments
from sfumato.errors import ParameterError, SourceError
from sfumato.methods.local.draws import draw_integers
from sfumato.methods.local.frequency_oracles import odds_of, respond
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.mechanism import (
    CARD_PEOPLE,
    LocalMechanism,
    read_report_count,
    read_size,
)
from sfumato.methods.local.reports import Code, ReportLayout, Reports, check_same
from sfumato.report.display import Card

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.privacy.noise.entropy import Entropy


PRIME = (1 << 31) - 1
CHUNK = 30
MOST_BITS = 240
MOST_FOUND = 4096
# Prefixes kept of each length, and the weight of the score of a shorter prefix. Both were tuned by
# simulation: 99 of 100 values as frequent as three standard deviations are found.
_ROOM = 512
_MEMORY = 0.7
# Hashes computed at once: it bounds memory, not results.
_PAIRS = 1 << 22


class HeavyHitters(LocalMechanism):
    """Report a prefix of the value, of a random length, by local hashing.

    *Guarantee*: epsilon-LDP: length and hash are drawn independently of the value, and the hash of
    the prefix is reported by randomized response over g = round(e^epsilon) + 1 numbers.
    *Sensitivity*: none is needed: longer values are cut to `bits`, shorter ones padded.
    *Error*: a share is estimated from the n / groups people who reported full values: n Var is
    groups times q (1 - q) / (p - q)^2, and more for large shares. Of values as frequent as three
    standard deviations 99 in 100 are found, of those as frequent as two six in ten.
    *Edges*: texts are their UTF-8 bytes, and texts that differ only after `bits` are one value; no
    character is cut in two. Numbers of more than 64 bits come out as texts of their digits. An
    estimate reads every report for each prefix, so reports are stored instead of a sketch.
    *Reference*: Wang, Li & Jha 2021, the prefix extending method.
    """

    name = "heavy-hitters"
    grouped = False

    def __init__(
        self,
        *,
        bits: int,
        epsilon: Number | LocalEpsilon,
        start: int | None = None,
        step: int = 2,
        text: bool = False,
    ) -> None:
        self.epsilon, self.bits = read_epsilon(epsilon), arguments.whole(bits, "bits")
        self.step, self.text = arguments.whole(step, "step"), arguments.flag(text, "text")
        self.start = min(self.bits, 10) if start is None else arguments.whole(start, "start")
        limits = (("bits", self.bits, 1, MOST_BITS), ("step", self.step, 1, 8))
        for name, value, least, most in (*limits, ("start", self.start, 1, min(self.bits, 16))):
            read_size(value, name, least, most)
        if self.text and self.bits % 8:
            raise ParameterError(
                "parameter_out_of_range",
                f"bits must be a multiple of 8 for texts, not {self.bits}: 8 for each byte.",
                parameter="bits",
                given=self.bits,
            )
        self.prefixes = [*range(self.start, self.bits, self.step), self.bits]
        """The prefix length of each group of people, in bits."""
        self.chunks = -(-self.bits // CHUNK)
        self.buckets = round(self.epsilon.rational(32)) + 1
        self.weights = odds_of(self.epsilon, self.buckets)
        truth, lie = self.weights
        self.p = Fraction(truth, truth + (self.buckets - 1) * lie)
        full, remainder = divmod(PRIME, self.buckets)
        alike = remainder * (full + 1) ** 2 + (self.buckets - remainder) * full**2
        # Two prefixes collide with this probability; then both support the same report.
        self.collision = Fraction(alike, PRIME**2)
        self.q = self.collision * self.p + (1 - self.collision) * (1 - self.p) / (self.buckets - 1)
        factors = [Code(f"factor_{at}", PRIME) for at in range(self.chunks)]
        codes = Code("group", len(self.prefixes)), *factors, Code("shift", PRIME)
        self.layout = ReportLayout((*codes, Code("report", self.buckets)))
        self.check_claim()

    def _declaration(self) -> dict[str, Any]:
        facts = {"bits": self.bits, "start": self.start, "step": self.step}
        return {**facts, "text": self.text}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return Fraction(*self.weights)

    def _rows(self, values: object, entropy: Entropy) -> NDArray[Any]:
        chunks = self._chunks(values)
        rows = self.layout.empty(len(chunks))
        group = draw_integers(len(self.prefixes), len(chunks), entropy)
        rows["group"] = group
        lengths = np.array(self.prefixes)[group]
        total = draw_integers(PRIME, len(chunks), entropy)
        rows["shift"] = total
        for at in range(self.chunks):
            factors = draw_integers(PRIME, len(chunks), entropy)
            rows[f"factor_{at}"] = factors
            total = (total + factors * _cut(chunks[:, at], lengths - at * CHUNK)) % PRIME
        rows["report"] = respond(total % self.buckets, self.buckets, self.weights, entropy)
        return rows

    def _chunks(self, values: object) -> IntArray:
        """The bits of each value in chunks of 30, the most significant first."""
        size = -(-self.bits // 8)
        texts = [self._bytes(value, size) for value in _list(values)]
        numbers = [int.from_bytes(text[:size].ljust(size, b"\0"), "big") for text in texts]
        room = self.chunks * CHUNK
        shifted = [number >> (8 * size - self.bits) << (room - self.bits) for number in numbers]
        mask = (1 << CHUNK) - 1
        return np.array(
            [[number >> (room - CHUNK * (at + 1)) & mask for at in range(self.chunks)]
             for number in shifted], dtype=np.int64
        ).reshape(len(shifted), self.chunks)  # fmt: skip

    def _bytes(self, value: object, size: int) -> bytes:
        if self.text and isinstance(value, str | bytes):
            return self._text(value, size)
        if isinstance(value, bytes):
            return value
        if not self.text and not isinstance(value, bool) and isinstance(value, int | np.integer):
            number = int(value)
            if 0 <= number < 1 << self.bits:
                return (number << (8 * size - self.bits)).to_bytes(size, "big")
        kind = "texts" if self.text else f"whole numbers of at most {self.bits} bits, 0 or above"
        raise ParameterError(
            "parameter_type_wrong",
            f"values must be {kind}, one for each person.",
            parameter="values",
        )

    def _text(self, value: str | bytes, size: int) -> bytes:
        """The first bytes of a text, without an incomplete character at the end."""
        try:
            raw = value.encode() if isinstance(value, str) else value
            raw.decode()
        except UnicodeError:
            raw = b"\0"
        # Zero bytes pad shorter texts, so no text may contain one.
        if b"\0" in raw:
            raise ParameterError(
                "parameter_type_wrong",
                "values must be texts in UTF-8, without the character of number 0, one for each "
                "person.",
                parameter="values",
            )
        return raw[:size].decode(errors="ignore").encode()

    def _tally(
        self,
        rows: NDArray[Any],  # noqa: ARG002
        times: IntArray | None = None,  # noqa: ARG002
        bits: IntArray | None = None,  # noqa: ARG002
    ) -> NoReturn:
        raise ParameterError(
            "estimate_not_possible",
            "Reports of heavy hitters have no sketch: the prefixes to count are known only during "
            "the search. Add reports with +, and give all of them to `find`.",
        )

    def find(self, reports: Reports, *, most: int = 32) -> pa.Table:
        """Find the values that seem most frequent.

        Parameters
        ----------
        reports : Reports
            All reports of this mechanism.
        most : int
            The largest number of values to return, up to 4,096.

        Returns
        -------
        pyarrow.Table
            Columns value, share and sd, the most frequent value first. Values are selected for a
            high estimate, so their shares are a little too high, more so for rare values.

        Raises
        ------
        ParameterError
            If `reports` are no reports, or `most` is out of its range.
        SourceError
            If reports are of another mechanism, or missing for some length of prefix.
        """
        arguments.require(reports, "reports", Reports, "reports of this mechanism")
        check_same(self.made_by, reports.made_by, "Reports")
        limit = read_size(most, "most", 1, MOST_FOUND)
        rows = reports.rows[self.layout.valid(reports.rows)]
        candidates, scores = list(range(1 << self.start)), np.zeros(1 << self.start)
        room = max(_ROOM, limit)
        for group, length in enumerate(self.prefixes):
            if group:
                added = length - self.prefixes[group - 1]
                candidates = [
                    prefix << added | low for prefix in candidates for low in range(1 << added)
                ]
                scores = np.repeat(scores, 1 << added)
            group_rows = rows[rows["group"] == group]
            if not len(group_rows):
                raise SourceError(
                    "estimate_not_possible",
                    "Nobody reported on some length of prefix, so frequent values cannot be found. "
                    "Collect more reports.",
                )
            shares = self._shares(group_rows, candidates, length)
            # A frequent value had frequent prefixes in the reports of earlier groups.
            scores = shares + _MEMORY * scores
            best = np.argsort(-scores, kind="stable")[: limit if length == self.bits else room]
            candidates, scores = [candidates[at] for at in best.tolist()], scores[best]
        best_shares = shares[best]
        order = np.argsort(-best_shares, kind="stable")
        values = [self._value(candidates[at]) for at in order.tolist()]
        spread = np.sqrt(self._variances(best_shares[order], len(group_rows)))
        column = pa.array(values, self._kind())
        return pa.table({"value": column, "share": best_shares[order], "sd": spread})

    def _kind(self) -> pa.DataType:
        """The type of values: integers of up to 64 bits, otherwise texts."""
        if self.text or self.bits > 64:
            return pa.string()
        return pa.int64() if self.bits < 64 else pa.uint64()

    def _variances(self, shares: Any, people: int) -> Any:
        """The variance of the noise, plus that of a sample: some people reported full values."""
        known = np.clip(shares, 0.0, 1.0)
        slope = float((1 - self.p - self.q) / (self.p - self.q))
        return self._variance(people) + known * (slope + 1 - known) / people

    def _shares(self, rows: NDArray[Any], candidates: list[int], length: int) -> Any:
        """Estimate, without bias, the share of people with each prefix of one length."""
        room = self.chunks * CHUNK
        mask = (1 << CHUNK) - 1
        columns = []
        for at in range(-(-length // CHUNK)):
            down = room - CHUNK * (at + 1)
            chunk = [(prefix << (room - length)) >> down & mask for prefix in candidates]
            columns.append((rows[f"factor_{at}"].astype(np.int64), np.array(chunk, np.int64)))
        shift, report = rows["shift"].astype(np.int64), rows["report"].astype(np.int64)
        counts = np.zeros(len(candidates), dtype=np.int64)
        at_once = max(1, _PAIRS // len(rows))
        for first in range(0, len(candidates), at_once):
            piece = slice(first, first + at_once)
            total = np.broadcast_to(shift, (len(counts[piece]), len(rows)))
            for factors, chunks in columns:
                total = (total + chunks[piece, None] * factors) % PRIME
            counts[piece] = (total % self.buckets == report).sum(axis=1)
        return (counts / len(rows) - float(self.q)) / float(self.p - self.q)

    def _value(self, code: int) -> str | int:
        if not self.text:
            return code if self.bits <= 64 else str(code)
        raw = code.to_bytes(self.bits // 8, "big").rstrip(b"\0")
        # Noise may select bytes that are no text; escapes keep different ones different.
        return raw.decode("utf-8", errors="backslashreplace")

    def _variance(self, people: int) -> float:
        return float(self.q * (1 - self.q) / (self.p - self.q) ** 2) / people

    def variance(self, n: int) -> float:
        """The variance of a rare value's share from n reports, split evenly over the groups."""
        return self._variance(read_report_count(n)) * len(self.prefixes)

    def _card(self) -> Card:
        kind = "texts" if self.text else "numbers"
        line = f"frequent {kind} of {self.bits} bits at epsilon {self.epsilon}"
        facts = {
            "bits": self.bits,
            "groups of people": len(self.prefixes),
            "epsilon": str(self.epsilon),
            "bytes a report": self.layout.dtype.itemsize,
            f"sd of a share from {CARD_PEOPLE:,} reports": math.sqrt(self.variance(CARD_PEOPLE)),
        }
        return Card(line, facts)


def _list(values: object) -> list[Any]:
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return list(values.to_pylist())
    if isinstance(values, np.ndarray):
        return list(values.tolist())
    if isinstance(values, str | bytes | int):
        return [values]
    if isinstance(values, list | tuple):
        return list(values)
    raise ParameterError(
        "parameter_type_wrong", "values must be a list, an array or a column.", parameter="values"
    )


def _cut(chunk: IntArray, kept_bits: IntArray) -> IntArray:
    """Clear all but the first bits of a chunk; all bits where `kept_bits` is 0 or less."""
    dropped_bits = CHUNK - np.clip(kept_bits, 0, CHUNK)
    return chunk >> dropped_bits << dropped_bits
