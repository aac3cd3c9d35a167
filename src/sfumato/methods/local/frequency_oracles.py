"""Frequency oracles with one report for each person, and the choice among them.

k-ary randomized response and Warner's, unary encodings (SUE, OUE), subset selection, optimized
local hashing (OLH) and Hadamard response. Probabilities are ratios of integers, so each mechanism
is drawn exactly and its realised epsilon is computed, not assumed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.domains import choices
from sfumato.methods.local.draws import coins, draw_events, draw_integers
from sfumato.methods.local.hashing import AffineHashes
from sfumato.methods.local.local_epsilon import read_epsilon
from sfumato.methods.local.mechanism import (
    Channel,
    Oracle,
    SupportOracle,
    check_channel_size,
    read_report_count,
)
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.draws import Coins
    from sfumato.methods.local.local_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy

# Bits of the total of all weights, and of the denominator of the odds.
_TOTAL_BITS, _ODDS_BITS = 61, 48
# Bits of the odds of one bit of a unary encoding.
_BIT_ODDS_BITS = 40
_MOST_BUCKETS = 1 << 12


def odds_of(epsilon: LocalEpsilon, size: int) -> tuple[int, int]:
    """Integer weights (a, b) of the truth and of each lie: a / b <= e^epsilon.

    The total a + (size - 1) b stays below 2^62, so that one word of 64 bits decides.
    """
    reserved = size + int(epsilon.rational(8)) + 1
    odds = epsilon.rational(min(_ODDS_BITS, _TOTAL_BITS - reserved.bit_length()))
    return odds.numerator, odds.denominator


def respond(codes: IntArray, size: int, weights: tuple[int, int], entropy: Entropy) -> IntArray:
    """Report each code with weight a, and each of the size - 1 others with weight b."""
    truth, lie = weights
    drawn = draw_integers(truth + (size - 1) * lie, len(codes), entropy)
    lie_code = np.maximum(drawn - truth, 0) // lie
    lie_code += lie_code >= codes  # lies are all codes except the true one
    return np.where(drawn < truth, codes, lie_code)


class KAry(SupportOracle):
    """Report the truth with probability e^epsilon / (e^epsilon + k - 1), else any other value.

    *Guarantee*: epsilon-LDP: a report has probability p under its own value and q under any other,
    and p / q <= e^epsilon.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), f the true share.
    *Edges*: The lie is drawn from the k - 1 other values; drawn from all k it would be a lie less
    often than is claimed, and the estimate biased. k up to 2^26.
    *Reference*: Warner 1965; Kairouz, Oh & Viswanath 2014.
    """

    name = "k-ary"
    counted_once = True

    def _prepare(self) -> None:
        self.weights = odds_of(self.epsilon, self.size)
        truth, lie = self.weights
        total = truth + (self.size - 1) * lie
        self.p, self.q = Fraction(truth, total), Fraction(lie, total)
        self.layout = ReportLayout((Code("report", self.size),))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of probabilities: p on the diagonal, q elsewhere."""
        check_channel_size(self.size, self.size)
        truth, lie = self.weights
        return Channel.of(
            [[truth if x == y else lie for y in range(self.size)] for x in range(self.size)]
        )

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        rows["report"] = respond(codes, self.size, self.weights, entropy)
        return rows


class Warner(KAry):
    """Report the truth with probability p = e^epsilon / (1 + e^epsilon), else its opposite.

    *Guarantee*: epsilon-LDP, epsilon = log(p / (1 - p)); a fair coin's p = 3/4 is log(3).
    *Sensitivity*: None to establish: a person says yes or no.
    *Error*: n Var = e^epsilon / (e^epsilon - 1)^2, whatever the true share; p (1 - p) / (2p - 1)^2.
    *Edges*: Two values only. If people are a sample of others, f (1 - f) / n is added; the stated
    error does not include it.
    *Reference*: Warner 1965.
    """

    name = "warner"

    def _prepare(self) -> None:
        if self.size != 2:
            raise ParameterError(
                "round_invalid",
                f"warner asks a question of two answers, but domain has {self.size:,} values. "
                "Use 'k-ary' for more.",
            )
        super()._prepare()


class UnaryEncoding(SupportOracle):
    """A report with a bit for each value: the true one set with probability p, others with q."""

    def _prepare(self) -> None:
        self.p, self.q = self._probabilities()
        self.layout = ReportLayout((), self.size)

    @abstractmethod
    def _probabilities(self) -> tuple[Fraction, Fraction]:
        """The probabilities p and q."""

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        # Two values differ in two bits.
        return self.p * (1 - self.q) / ((1 - self.p) * self.q)

    def channel(self) -> Channel:
        """The matrix of probabilities, a column for each set of bits."""
        check_channel_size(self.size, 1 << self.size)
        return bits_channel(
            [[self.p if bit == x else self.q for bit in range(self.size)] for x in range(self.size)]
        )

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        rows["bits"] = toss_bits(coins(self.q), len(codes), self.size, entropy)
        set_bits(rows["bits"], codes, draw_events(self.p, len(codes), entropy))
        return rows


class SUE(UnaryEncoding):
    """Symmetric unary encoding: every bit is flipped with the same probability.

    *Guarantee*: epsilon-LDP: values differ in two bits, each with odds e^(epsilon/2).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = e^(epsilon/2) / (e^(epsilon/2) - 1)^2, whatever the true share.
    *Edges*: k bits a report, each flipped on its own; no bit is ever certain.
    *Reference*: Erlingsson, Pihur & Korolova 2014 (basic RAPPOR, one round); Wang et al. 2017.
    """

    name = "sue"

    def _probabilities(self) -> tuple[Fraction, Fraction]:
        odds = self.epsilon.share(2).rational(_BIT_ODDS_BITS)
        return odds / (1 + odds), 1 / (1 + odds)


class OUE(UnaryEncoding):
    """Optimized unary encoding: the true bit is a fair coin, others are rarely set.

    *Guarantee*: epsilon-LDP: p (1 - q) / ((1 - p) q) = e^epsilon for p = 1/2, q = 1 / (e^eps + 1).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = 4 e^epsilon / (e^epsilon - 1)^2 + f: for rare values the least of all unary
    encodings.
    *Edges*: k bits a report; the true bit is set with 1/2 and cleared with 1/2.
    *Reference*: Wang, Blocki, Li & Jha 2017, section 4.3.
    """

    name = "oue"

    def _probabilities(self) -> tuple[Fraction, Fraction]:
        return Fraction(1, 2), 1 / (self.epsilon.rational(_BIT_ODDS_BITS) + 1)


def toss_bits(coin: Coins, count: int, width: int, entropy: Entropy) -> NDArray[np.uint8]:
    """Toss `width` bits in each of `count` rows of packed bytes; later bits are clear."""
    size = -(-width // 8)
    rows = coin.toss(count * size, entropy).reshape(count, size)
    if width % 8:
        rows[:, -1] &= (1 << width % 8) - 1
    return rows


def set_bits(rows: NDArray[np.uint8], positions: IntArray, values: BoolArray) -> None:
    """Set the bit at one position of each row to a value."""
    target = np.arange(len(rows)), positions >> 3
    mask = np.left_shift(1, positions & 7).astype(np.uint8)
    rows[target] = np.where(values, rows[target] | mask, rows[target] & ~mask)


def bits_channel(probabilities: list[list[Fraction]]) -> Channel:
    """The channel of independent bits, from the probability of each bit for each input."""
    width = len(probabilities[0])
    patterns = (np.arange(1 << width)[:, None] >> np.arange(width)) & 1
    common = math.lcm(*(probability.denominator for row in probabilities for probability in row))
    weights = np.ones((len(probabilities), 1 << width), dtype=object)
    for x, row in enumerate(probabilities):
        for bit, probability in enumerate(row):
            yes = int(probability * common)
            weights[x] *= np.where(patterns[:, bit] == 1, yes, common - yes).astype(object)
    return Channel(weights, common**width)


class SubsetSelection(SupportOracle):
    """Report a set of w = max(1, round(k / (e^epsilon + 1))) values, more often with the true one.

    *Guarantee*: epsilon-LDP: a set has weight e^epsilon if it contains the true value and 1 if
    not; equally many sets contain each value.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), p and q the probabilities that
    the true value and that another one is in the set: the least of all for rare values.
    *Edges*: k bits a report, w of them set; a report with another number of bits is rejected.
    *Reference*: Wang et al. 2016; Ye & Barg 2018.
    """

    name = "subset"
    grouped = False

    def _prepare(self) -> None:
        k = self.size
        self.chosen = max(1, round(k / (self.epsilon.rational(32) + 1)))
        self.weights = odds_of(self.epsilon, k)
        hit, miss = self.weights
        w = self.chosen
        self.p = Fraction(hit * w, hit * w + miss * (k - w))
        self.q = (self.p * (w - 1) + (1 - self.p) * w) / (k - 1)
        self.layout = ReportLayout((), k)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of probabilities, a column for each set."""
        check_channel_size(self.size, math.comb(self.size, self.chosen))
        hit, miss = self.weights
        sets = [set(chosen) for chosen in combinations(range(self.size), self.chosen)]
        return Channel.of(
            [[hit if x in subset else miss for subset in sets] for x in range(self.size)]
        )

    def can_send(self, rows: NDArray[Any]) -> BoolArray:
        """Which rows are sets of w values."""
        filled = np.bitwise_count(rows["bits"]).sum(axis=1, dtype=np.int64)
        return np.asarray(self.layout.valid(rows) & (filled == self.chosen))

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        """Toss for every value, then add or remove other values at random until there are w.

        Tosses are exchangeable: given its size, every set of other values is equally likely. It
        stays so when one of them, each equally likely, is added or removed.
        """
        rows = self.layout.empty(len(codes))
        bits = toss_bits(coins(Fraction(self.chosen, self.size)), len(codes), self.size, entropy)
        set_bits(bits, codes, draw_events(self.p, len(codes), entropy))
        lacking = self.chosen - np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
        unfinished = np.flatnonzero(lacking)
        while len(unfinished):
            code = draw_integers(self.size, len(unfinished), entropy)
            filled = bits[unfinished, code >> 3] >> (code & 7).astype(np.uint8) & 1
            adding = lacking[unfinished] > 0
            fits = (filled == 0) == adding
            fits &= code != codes[unfinished]
            row, position, added = unfinished[fits], code[fits], adding[fits]
            bits[row, position >> 3] ^= np.left_shift(1, position & 7).astype(np.uint8)
            lacking[row] -= np.where(added, 1, -1)
            unfinished = unfinished[lacking[unfinished] != 0]
        rows["bits"] = bits
        return rows


class OLH(SupportOracle):
    """Hash the value to g = round(e^epsilon) + 1 numbers by a fresh hash, then report a number.

    *Guarantee*: epsilon-LDP: the hash is drawn independently of the value, and its output is
    reported by g-ary randomized response.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = (e^eps + g - 1)^2 / ((e^eps - 1)^2 (g - 1)) + f (1 - p - 1/g) / (p - 1/g).
    *Edges*: Another value is supported with exactly 1/g, not with (1 - p) / (g - 1); every report
    has a fresh hash from the whole family, so that no error stays as n grows. k up to 2^26, though
    a collector's work grows with k times the number of different factors.
    *Reference*: Wang, Blocki, Li & Jha 2017, section 4.4.
    """

    name = "olh"
    grouped = False

    def _prepare(self) -> None:
        odds = self.epsilon.rational(32)
        self.buckets = round(odds) + 1
        if self.buckets > _MOST_BUCKETS:
            raise ParameterError(
                "parameter_out_of_range",
                f"olh hashes to {self.buckets:,} numbers at epsilon {self.epsilon}, of which "
                f"{_MOST_BUCKETS:,} are the most. Use 'k-ary' or a smaller epsilon.",
                parameter="epsilon",
            )
        self.hashes = AffineHashes.to(self.size, self.buckets)
        self.weights = odds_of(self.epsilon, self.buckets)
        truth, lie = self.weights
        self.p = Fraction(truth, truth + (self.buckets - 1) * lie)
        self.q = Fraction(1, self.buckets)
        prime = self.hashes.prime
        codes = Code("factor", prime), Code("shift", prime), Code("report", self.buckets)
        self.layout = ReportLayout(codes)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of probabilities, a column for each hash and output."""
        prime, g = self.hashes.prime, self.buckets
        check_channel_size(self.size, prime * prime * g)
        truth, lie = self.weights
        constant = self.hashes.constant
        # Weights of a factor of 0 and of any other factor, in a unit that makes both integers.
        zero_weight = constant.numerator * (prime - 1)
        other_weight = constant.denominator - constant.numerator
        rows = [
            [
                (other_weight if factor else zero_weight) * (truth if output == hashed else lie)
                for factor in range(prime)
                for shift in range(prime)
                for hashed in [(factor * x + shift) % prime % g]
                for output in range(g)
            ]
            for x in range(self.size)
        ]
        return Channel.of(rows)

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        factors, shifts = self.hashes.draw(len(codes), entropy)
        hashed = self.hashes.of(codes, factors, shifts)
        rows["factor"], rows["shift"] = factors, shifts
        rows["report"] = respond(hashed, self.buckets, self.weights, entropy)
        return rows

    def _tally(
        self,
        rows: NDArray[Any],
        times: IntArray | None = None,  # noqa: ARG002  reports are not grouped
        bits: IntArray | None = None,  # noqa: ARG002
    ) -> IntArray:
        columns = (rows[name].astype(np.int64) for name in ("factor", "shift", "report"))
        return self.hashes.supports(*columns)


class HadamardResponse(Oracle):
    """Report an index, more often one from the half of a Hadamard row that belongs to the value.

    Values are dealt out to `blocks` blocks, each with a Hadamard matrix of its own; row 0, which
    tells nothing, belongs to no value. One block suits epsilon up to 1, more blocks larger ones.

    *Guarantee*: epsilon-LDP: an index has weight e^epsilon in the value's half row and 1 elsewhere;
    half rows are of one size.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = ((e^eps + 1) / (e^eps - 1))^2 - f for one block; for B blocks
    (e^eps - 1 + 2B) (F (e^eps + 1) + 2 (1 - F)) / (e^eps - 1)^2 - f, F the share of the block.
    *Edges*: The number of indices of a block is the least power of 2 above its number of values.
    *Reference*: Acharya, Sun & Zhang 2019.
    """

    name = "hadamard"
    counted_once = True

    def __init__(self, domain: object, *, epsilon: Number | LocalEpsilon, blocks: int = 1) -> None:
        self.blocks = arguments.whole(blocks, "blocks")
        super().__init__(domain, epsilon=epsilon)

    def _prepare(self) -> None:
        if not (1 <= self.blocks <= self.size and self.blocks.bit_count() == 1):
            raise ParameterError(
                "parameter_out_of_range",
                f"blocks must be a power of 2 up to the number of values, not {self.blocks}.",
                parameter="blocks",
                given=self.blocks,
            )
        self.block_size = 1 << (-(-self.size // self.blocks)).bit_length()
        self.weights = odds_of(self.epsilon, 2 * self.blocks)
        hit, miss = self.weights
        self.p = Fraction(hit, hit + (2 * self.blocks - 1) * miss)
        self.layout = ReportLayout((Code("report", self.blocks * self.block_size),))

    def options(self) -> dict[str, Any]:
        """The number of blocks."""
        return {"blocks": self.blocks}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of a report's probabilities between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of probabilities, a column for each index."""
        outputs = self.blocks * self.block_size
        check_channel_size(self.size, outputs)
        hit, miss = self.weights
        blocks, rows = self._positions(np.arange(self.size))
        index = np.arange(outputs)
        own = index // self.block_size == blocks[:, None]
        own &= np.bitwise_count(index % self.block_size & rows[:, None]) % 2 == 0
        return Channel.of(np.where(own, hit, miss).tolist())

    def _positions(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """The block and the row of each value; neighbouring values are in different blocks."""
        return codes % self.blocks, 1 + codes // self.blocks

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        count = len(codes)
        block, row = self._positions(codes)
        hit = draw_events(self.p, count, entropy)
        # A miss falls on the other half of the block, or on either half of another block.
        half = np.where(hit, -1, draw_integers(2 * self.blocks - 1, count, entropy))
        # An index of the block is moved to the chosen half by flipping one bit of the row.
        index = draw_integers(self.block_size, count, entropy)
        odd = (np.bitwise_count(index & row) % 2).astype(np.bool_)
        index ^= np.where(odd == (half % 2 == 1), row & -row, 0)
        step = (half + 1) // 2
        rows = self.layout.empty(count)
        rows["report"] = (block + step) % self.blocks * self.block_size + index
        return rows

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        spectrum = walsh_hadamard(sketch.tally.reshape(self.blocks, self.block_size))
        block, row = self._positions(np.arange(self.size))
        hit, miss = self.weights
        # The weight of one report in a value's half row, against its other half.
        unit = Fraction(hit + (2 * self.blocks - 1) * miss, hit - miss)
        return np.asarray(spectrum[block, row] * (float(unit) / sketch.n))

    def variance(self, n: int, share: float = 0.0, block_share: float | None = None) -> float:
        """The variance of the estimate of one share from n reports.

        Parameters
        ----------
        n : int
            The number of reports.
        share : float
            The true share of the value.
        block_share : float, optional
            The share of people whose values are in the same block; by default as if other values
            were spread evenly. It matters for several blocks only.
        """
        people, odds, own = read_report_count(n), self.ratio, Fraction(share)
        if block_share is None:
            within = own + (1 - own) / self.blocks if self.blocks > 1 else Fraction(1)
        else:
            within = Fraction(block_share)
        variance_each = (odds - 1 + 2 * self.blocks) / (odds - 1) ** 2
        return float((variance_each * (within * (odds + 1) + 2 * (1 - within)) - own) / people)

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        block, _ = self._positions(np.arange(self.size))
        own = np.clip(shares, 0.0, 1.0)
        by_block = np.bincount(block, shares, minlength=self.blocks)
        within = np.clip(by_block[block], own, 1.0) if self.blocks > 1 else np.ones(self.size)
        n = sketch.n
        # Linear in both shares: three corners determine it.
        neither = self.variance(n, 0.0, 0.0)
        only_block, only_own = self.variance(n, 0.0, 1.0), self.variance(n, 1.0, 0.0)
        return neither + within * (only_block - neither) + own * (only_own - neither)


def walsh_hadamard(values: NDArray[Any]) -> NDArray[Any]:
    """The Walsh-Hadamard transform along the last axis, whose length is a power of 2."""
    size = values.shape[-1]
    result = values.copy()
    step = 1
    while step < size:
        pairs = result.reshape(*values.shape[:-1], size // (2 * step), 2, step)
        result = np.stack(
            [pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=-2
        ).reshape(values.shape)
        step *= 2
    return result


NEAR = 1.05
"""Among oracles whose variance is within this factor of the least, the shortest report wins."""

# Steps of a collector's work: minutes.
_MOST_STEPS = 10**11
_USUAL_REPORT_BYTES = 1 << 13
_USUAL_PEOPLE = 10_000


def choose(
    domain: object,
    *,
    epsilon: Number | LocalEpsilon,
    n: int | None = None,
    most_bytes: int | None = None,
) -> Oracle:
    """Choose the oracle of the least variance whose reports are short and whose work is bounded.

    k-ary response is best for few values (k < 3 e^epsilon + 2). For more, subset selection, OUE and
    OLH have nearly the same variance and differ in the length of reports and in a collector's work;
    Hadamard response has the shortest reports and the least work, at more variance. All of these
    are computed from public numbers and compared; `why` of the result gives the reason.

    Parameters
    ----------
    domain : list or int
        The declared values, or their number.
    epsilon : number or LocalEpsilon
        The epsilon of a report.
    n : int, optional
        The expected number of reports; 10,000 by default.
    most_bytes : int, optional
        The most bytes of a report; 8,192 by default.

    Raises
    ------
    ParameterError
        If no report fits `most_bytes`.
    """
    people = read_report_count(_USUAL_PEOPLE if n is None else n)
    room = _USUAL_REPORT_BYTES if most_bytes is None else arguments.whole(most_bytes, "most_bytes")
    values, claimed = choices(domain), read_epsilon(epsilon)
    if values.size == 2:
        best: Oracle = Warner(values, epsilon=claimed)
        best.why = "two values: nothing is better than Warner's response"
        return best
    oracles = [
        KAry(values, epsilon=claimed),
        HadamardResponse(values, epsilon=claimed),
        HadamardResponse(values, epsilon=claimed, blocks=_blocks(values.size, float(claimed))),
    ]
    if values.size <= 8 * room:
        oracles += [SubsetSelection(values, epsilon=claimed), OUE(values, epsilon=claimed)]
    # Below e^epsilon values k-ary response is better, and hashing only makes reports longer.
    work = min(people, values.size) * values.size
    if work <= _MOST_STEPS and math.exp(float(claimed)) < values.size:
        oracles.append(OLH(values, epsilon=claimed))
    fitting = [oracle for oracle in oracles if oracle.layout.dtype.itemsize <= room]
    if not fitting:
        shortest = min(oracle.layout.dtype.itemsize for oracle in oracles)
        raise ParameterError(
            "parameter_out_of_range",
            f"No report over {values.size:,} values fits {room} bytes; the shortest takes "
            f"{shortest}. Allow as many, or declare fewer values.",
            parameter="domain",
        )
    least = min(oracle.variance(people) for oracle in fitting)
    near = [oracle for oracle in fitting if oracle.variance(people) <= NEAR * least]
    best = min(near, key=lambda oracle: (oracle.layout.dtype.itemsize, oracle.variance(people)))
    best.why = _reason(best, fitting, people)
    return best


def _blocks(size: int, epsilon: float) -> int:
    """The blocks of Acharya, Sun and Zhang: about half of e^epsilon, a power of 2."""
    bit_count = math.ceil(math.log2(min(math.exp(epsilon), 2 * size))) - 1
    return min(1 << max(bit_count, 0), 1 << (size.bit_length() - 1))


def _reason(best: Oracle, fitting: list[Oracle], people: int) -> str:
    alternatives = {
        oracle.name: f"{oracle.name} {math.sqrt(oracle.variance(people)):.3g} ({_bytes(oracle)})"
        for oracle in sorted(fitting, key=lambda oracle: -oracle.variance(people))
        if oracle.name != best.name
    }
    spread = math.sqrt(best.variance(people))
    return (
        f"a rare value's share has sd {spread:.3g} from {people:,} reports of {_bytes(best)} each; "
        f"others: {', '.join(alternatives.values())}"
    )


def _bytes(oracle: Oracle) -> str:
    size = oracle.layout.dtype.itemsize
    return f"{size} byte{'s' * (size != 1)}"
