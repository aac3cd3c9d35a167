"""Randomized response over k values, and Warner's over two."""

from __future__ import annotations

import math
from abc import abstractmethod
from fractions import Fraction
from itertools import combinations
from math import comb, lcm
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.methods.local.domains import choices
from sfumato.methods.local.draws import below, bit_sums, coins, happens
from sfumato.methods.local.exact_epsilon import level
from sfumato.methods.local.hashing import AffineHashes
from sfumato.methods.local.mechanism import (
    Channel,
    Oracle,
    SupportOracle,
    people_of,
    room_for,
    tallied,
)
from sfumato.methods.local.reports import Code, ReportLayout

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import BoolArray, FloatArray, IntArray
    from sfumato.exact_numbers import Number
    from sfumato.methods.local.draws import Coins
    from sfumato.methods.local.exact_epsilon import LocalEpsilon
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.privacy.noise.entropy import Entropy


_TOTAL_BITS, _MOST_BITS = 61, 48


def odds_of(level: LocalEpsilon, size: int) -> tuple[int, int]:
    """Whole weights (a, b) of the truth and of each lie: a / b <= e^epsilon, a + (k - 1) b small.

    Their total stays below 2^62, so that one word of 64 bits decides.
    """
    room = size + int(level.rational(8)) + 1
    odds = level.rational(min(_MOST_BITS, _TOTAL_BITS - room.bit_length()))
    return odds.numerator, odds.denominator


def respond(codes: IntArray, size: int, weights: tuple[int, int], entropy: Entropy) -> IntArray:
    """Say each code with weight a, and each of the size - 1 others with weight b."""
    truth, lie = weights
    drawn = below(truth + (size - 1) * lie, len(codes), entropy)
    lie_code = np.maximum(drawn - truth, 0) // lie
    lie_code += lie_code >= codes  # the lies are the codes but the true one
    return np.where(drawn < truth, codes, lie_code)


class KAry(SupportOracle):
    """Say the truth with chance e^epsilon / (e^epsilon + k - 1), else any other value.

    *Guarantee*: epsilon-LDP: a report has chance p under its own value and q under any other, and
    p / q <= e^epsilon.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), f the true share.
    *Edges*: The lie is drawn from the k - 1 other values; drawn from all k it would be less often
    one than is claimed, and the estimate biased. k up to 2^26.
    *Reference*: Warner 1965; Kairouz, Oh & Viswanath 2014.
    """

    name = "k-ary"
    counted_once = True

    def _prepare(self) -> None:
        self.weights = odds_of(self.level, self.size)
        truth, lie = self.weights
        total = truth + (self.size - 1) * lie
        self.p, self.q = Fraction(truth, total), Fraction(lie, total)
        self.layout = ReportLayout((Code("report", self.size),))

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances: p on the diagonal, q elsewhere."""
        room_for(self.size, self.size)
        truth, lie = self.weights
        return Channel.of(
            [[truth if x == y else lie for y in range(self.size)] for x in range(self.size)]
        )

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        rows["report"] = respond(codes, self.size, self.weights, entropy)
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return tallied(rows["report"], self.size)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return tallied(rows["report"], self.size, times)


class Warner(KAry):
    """Say the truth with chance p = e^epsilon / (1 + e^epsilon), its opposite otherwise.

    *Guarantee*: epsilon-LDP, epsilon = log(p / (1 - p)); a fair coin's p = 3/4 is log(3).
    *Sensitivity*: None to establish: a person says yes or no.
    *Error*: n Var = e^epsilon / (e^epsilon - 1)^2, whatever the true share; p (1 - p) / (2p - 1)^2.
    *Edges*: Two values only. That people are a sample of others adds f (1 - f) / n, which is no
    matter of privacy and not in it.
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


# Unary encoding: a report has a bit for each value, set more often for the true one.
#
# Symmetric (SUE): the true bit is kept with p = e^(epsilon/2) / (1 + e^(epsilon/2)), others are
# set
# with 1 - p. Optimized (OUE): p = 1/2 and q = 1 / (e^epsilon + 1), which makes rare values'
# variance
# least among such encodings.

_BITS = 40


class UnaryEncoding(SupportOracle):
    """What SUE and OUE share: a true bit set with chance p, each other with q."""

    def _prepare(self) -> None:
        self.p, self.q = self._chances()
        self.layout = ReportLayout((), self.size)

    @abstractmethod
    def _chances(self) -> tuple[Fraction, Fraction]:
        """The chances p and q."""

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly.

        Two values differ in two bits: p (1 - q) / ((1 - p) q).
        """
        return self.p * (1 - self.q) / ((1 - self.p) * self.q)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each set of bits."""
        room_for(self.size, 1 << self.size)
        return bits_channel(
            [[self.p if at == x else self.q for at in range(self.size)] for x in range(self.size)]
        )

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        rows = self.layout.empty(len(codes))
        rows["bits"] = toss_bits(coins(self.q), len(codes), self.size, entropy)
        set_bits(rows["bits"], codes, happens(self.p, len(codes), entropy))
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return bit_sums(rows["bits"], self.size)

    def _count_groups(
        self,
        rows: NDArray[Any],  # noqa: ARG002  without codes there is one group
        times: IntArray,  # noqa: ARG002
        bits: IntArray | None,
    ) -> IntArray:
        assert bits is not None
        return np.asarray(bits.sum(axis=0))


class SUE(UnaryEncoding):
    """Symmetric unary encoding: every bit is flipped with the same chance.

    *Guarantee*: epsilon-LDP: values differ in two bits, each with odds e^(epsilon/2).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = e^(epsilon/2) / (e^(epsilon/2) - 1)^2, whatever the true share.
    *Edges*: k bits a report, each flipped on its own; no bit is ever certain.
    *Reference*: Erlingsson, Pihur & Korolova 2014 (basic RAPPOR, one round); Wang et al. 2017.
    """

    name = "sue"

    def _chances(self) -> tuple[Fraction, Fraction]:
        odds = self.level.share(2).rational(_BITS)
        return odds / (1 + odds), 1 / (1 + odds)


class OUE(UnaryEncoding):
    """Optimized unary encoding: the true bit is a fair coin's, others are seldom set.

    *Guarantee*: epsilon-LDP: p (1 - q) / ((1 - p) q) = e^epsilon for p = 1/2, q = 1 / (e^eps + 1).
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = 4 e^epsilon / (e^epsilon - 1)^2 + f.
    *Edges*: k bits a report; the true bit is set with 1/2 and cleared with 1/2.
    *Reference*: Wang, Blocki, Li & Jha 2017, section 4.3.
    """

    name = "oue"

    def _chances(self) -> tuple[Fraction, Fraction]:
        return Fraction(1, 2), 1 / (self.level.rational(_BITS) + 1)


def toss_bits(coin: Coins, count: int, width: int, entropy: Entropy) -> NDArray[np.uint8]:
    """Rows of packed bits, all tossed; those behind the last of a row are clear."""
    size = -(-width // 8)
    rows = coin.toss(count * size, entropy).reshape(count, size)
    if width % 8:
        rows[:, -1] &= (1 << width % 8) - 1
    return rows


def set_bits(rows: NDArray[np.uint8], places: IntArray, to: BoolArray) -> None:
    """Set one bit of each row to what is told."""
    at = np.arange(len(rows)), places >> 3
    mask = np.left_shift(1, places & 7).astype(np.uint8)
    rows[at] = np.where(to, rows[at] | mask, rows[at] & ~mask)


def bits_channel(chances: list[list[Fraction]]) -> Channel:
    """The channel of independent bits, whose chances each input has of its own."""
    width = len(chances[0])
    patterns = (np.arange(1 << width)[:, None] >> np.arange(width)) & 1
    common = lcm(*(chance.denominator for row in chances for chance in row))
    weights = np.ones((len(chances), 1 << width), dtype=object)
    for x, row in enumerate(chances):
        for at, chance in enumerate(row):
            yes = int(chance * common)
            weights[x] *= np.where(patterns[:, at] == 1, yes, common - yes).astype(object)
    return Channel(weights, common**width)


# Subset selection: a report is a set of values, which has the true one in it more often.


class SubsetSelection(SupportOracle):
    """Say a set of w = max(1, round(k / (e^epsilon + 1))) values, each with weight by the true one.

    *Guarantee*: epsilon-LDP: a set has weight e^epsilon where it holds the true value and 1 where
    not; for every value equally many sets do.
    *Sensitivity*: None to establish: a person has one of k values.
    *Error*: n Var = q (1 - q) / (p - q)^2 + f (1 - p - q) / (p - q), p and q the chances that the
    true value and that another one is in the set: the least of all for rare values.
    *Edges*: k bits a report, w of them set; a report with another number of bits is rejected.
    *Reference*: Wang et al. 2016; Ye & Barg 2018.
    """

    name = "subset"
    grouped = False

    def _prepare(self) -> None:
        k = self.size
        self.chosen = max(1, round(k / (self.level.rational(32) + 1)))
        self.weights = odds_of(self.level, k)
        hit, miss = self.weights
        w = self.chosen
        self.p = Fraction(hit * w, hit * w + miss * (k - w))
        self.q = (self.p * (w - 1) + (1 - self.p) * w) / (k - 1)
        self.layout = ReportLayout((), k)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each set."""
        room_for(self.size, comb(self.size, self.chosen))
        hit, miss = self.weights
        sets = [set(chosen) for chosen in combinations(range(self.size), self.chosen)]
        return Channel.of(
            [[hit if x in subset else miss for subset in sets] for x in range(self.size)]
        )

    def _sent(self, rows: NDArray[Any]) -> BoolArray:
        filled = np.bitwise_count(rows["bits"]).sum(axis=1, dtype=np.int64)
        return np.asarray(self.layout.valid(rows) & (filled == self.chosen))

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        """Toss for every value, then add or remove values at random until there are w.

        Tosses are exchangeable, so that what they choose is, for its number, any set alike, and
        stays so when one of the others, each alike, is added or removed.
        """
        rows = self.layout.empty(len(codes))
        bits = toss_bits(coins(Fraction(self.chosen, self.size)), len(codes), self.size, entropy)
        set_bits(bits, codes, happens(self.p, len(codes), entropy))
        lacking = self.chosen - np.bitwise_count(bits).sum(axis=1, dtype=np.int64)
        unfilled = np.flatnonzero(lacking)
        while len(unfilled):
            code = below(self.size, len(unfilled), entropy)
            filled = bits[unfilled, code >> 3] >> (code & 7).astype(np.uint8) & 1
            adding = lacking[unfilled] > 0
            fits = (filled == 0) == adding
            fits &= code != codes[unfilled]
            at, where, add = unfilled[fits], code[fits], adding[fits]
            bits[at, where >> 3] ^= np.left_shift(1, where & 7).astype(np.uint8)
            lacking[at] -= np.where(add, 1, -1)
            unfilled = unfilled[lacking[unfilled] != 0]
        rows["bits"] = bits
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return bit_sums(rows["bits"], self.size)


# Optimized local hashing: a report of a few bytes that is as good as one bit for each value.

_MOST_BUCKETS = 1 << 12


class OLH(SupportOracle):
    """Hash the value to g = round(e^epsilon) + 1 numbers by a hash of one's own, then say a number.

    *Guarantee*: epsilon-LDP: the hash is drawn independently of the value, and its output is said
    by g-ary randomized response.
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
        odds = self.level.rational(32)
        self.buckets = round(odds) + 1
        if self.buckets > _MOST_BUCKETS:
            raise ParameterError(
                "parameter_out_of_range",
                f"olh hashes to {self.buckets:,} numbers at epsilon {self.level}, of which "
                f"{_MOST_BUCKETS:,} are the most. Use 'k-ary' or a smaller epsilon.",
            )
        self.hashes = AffineHashes.to(self.size, self.buckets)
        self.weights = odds_of(self.level, self.buckets)
        truth, lie = self.weights
        self.p = Fraction(truth, truth + (self.buckets - 1) * lie)
        self.q = Fraction(1, self.buckets)
        prime = self.hashes.prime
        codes = Code("factor", prime), Code("shift", prime), Code("report", self.buckets)
        self.layout = ReportLayout(codes)

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each hash and output."""
        prime, g = self.hashes.prime, self.buckets
        room_for(self.size, prime * prime * g)
        truth, lie = self.weights
        constant = self.hashes.constant
        # Chances of one factor, in units that make all of them whole.
        rare = constant.numerator * (prime - 1)
        usual = constant.denominator - constant.numerator
        rows = [
            [
                (usual if factor else rare) * (truth if output == hashed else lie)
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

    def _count(self, rows: NDArray[Any]) -> IntArray:
        columns = (rows[name].astype(np.int64) for name in ("factor", "shift", "report"))
        return self.hashes.supports(*columns)


# Hadamard response: one index a report, estimates for all values by one fast transform.


class HadamardResponse(Oracle):
    """Say an index from the half of a Hadamard row that is the value's, more often than another.

    Values are dealt out to `blocks` blocks, each with a Hadamard matrix of its own; row 0, which
    tells nothing, is nobody's. One block is for epsilon up to 1, more of them for larger ones.

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
            )
        self.each = 1 << (-(-self.size // self.blocks)).bit_length()
        self.weights = odds_of(self.level, 2 * self.blocks)
        hit, miss = self.weights
        self.p = Fraction(hit, hit + (2 * self.blocks - 1) * miss)
        self.layout = ReportLayout((Code("report", self.blocks * self.each),))

    def options(self) -> dict[str, Any]:
        """What else was settled, by name."""
        return {"blocks": self.blocks}

    @property
    def ratio(self) -> Fraction:
        """The largest ratio of the chances of a report between two values, exactly."""
        return Fraction(*self.weights)

    def channel(self) -> Channel:
        """The matrix of chances, a column for each index."""
        outputs = self.blocks * self.each
        room_for(self.size, outputs)
        hit, miss = self.weights
        blocks, rows = self._positions(np.arange(self.size))
        index = np.arange(outputs)
        own = index // self.each == blocks[:, None]
        own &= np.bitwise_count(index % self.each & rows[:, None]) % 2 == 0
        return Channel.of(np.where(own, hit, miss).tolist())

    def _positions(self, codes: IntArray) -> tuple[IntArray, IntArray]:
        """The block and the row of each value; values are dealt out, neighbours to other blocks."""
        return codes % self.blocks, 1 + codes // self.blocks

    def _draw(self, codes: IntArray, entropy: Entropy) -> NDArray[Any]:
        count = len(codes)
        block, row = self._positions(codes)
        hit = happens(self.p, count, entropy)
        # A miss falls on the other half of the block, or on either half of another block.
        half = np.where(hit, -1, below(2 * self.blocks - 1, count, entropy))
        # An index of the block, turned over to the wanted half by flipping one bit of the row.
        index = below(self.each, count, entropy)
        odd = (np.bitwise_count(index & row) % 2).astype(np.bool_)
        index ^= np.where(odd == (half % 2 == 1), row & -row, 0)
        step = (half + 1) // 2
        rows = self.layout.empty(count)
        rows["report"] = (block + step) % self.blocks * self.each + index
        return rows

    def _count(self, rows: NDArray[Any]) -> IntArray:
        return tallied(rows["report"], self.blocks * self.each)

    def _count_groups(
        self,
        rows: NDArray[Any],
        times: IntArray,
        bits: IntArray | None,  # noqa: ARG002  reports have no bits
    ) -> IntArray:
        return tallied(rows["report"], self.blocks * self.each, times)

    def _shares(self, sketch: ReportSketch) -> FloatArray:
        spectrum = walsh_hadamard(sketch.tally.reshape(self.blocks, self.each))
        block, row = self._positions(np.arange(self.size))
        return np.asarray(spectrum[block, row] * (float(self._unit) / sketch.n))

    @property
    def _unit(self) -> Fraction:
        """What one report in a value's half row, against its other half, counts for."""
        hit, miss = self.weights
        return Fraction(hit + (2 * self.blocks - 1) * miss, hit - miss)

    def variance(self, n: int, share: float = 0.0, block_share: float | None = None) -> float:
        """The variance of one share's estimate from n reports, where the true share is this.

        With several blocks it depends on the share of people whose values are in the same block,
        which is taken for an even one unless `block_share` says it.
        """
        people, odds, own = people_of(n), self.ratio, Fraction(share)
        if block_share is None:
            within = own + (1 - own) / self.blocks if self.blocks > 1 else Fraction(1)
        else:
            within = Fraction(block_share)
        variance_each = (odds - 1 + 2 * self.blocks) / (odds - 1) ** 2
        return float((variance_each * (within * (odds + 1) + 2 * (1 - within)) - own) / people)

    def _variances(self, sketch: ReportSketch, shares: FloatArray) -> FloatArray:
        block, _ = self._positions(np.arange(self.size))
        known = np.clip(shares, 0.0, 1.0)
        together = np.bincount(block, shares, minlength=self.blocks)
        within = np.clip(together[block], known, 1.0) if self.blocks > 1 else np.ones(self.size)
        n = sketch.n
        corners = [
            self.variance(n, 0.0, 0.0),
            self.variance(n, 0.0, 1.0),
            self.variance(n, 1.0, 0.0),
        ]
        return corners[0] + within * (corners[1] - corners[0]) + known * (corners[2] - corners[0])


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


# Which oracle suits: the least variance, short reports among those near it, work in bounds.
#
# At one epsilon k-ary response is best for few values (k < 3 e^epsilon + 2). For more, subset
# selection, OUE and OLH have nearly the same variance and differ in the length of their reports
# and
# in a collector's work; Hadamard response has the shortest reports and the least work, at more
# variance. All of that is computed from public numbers and compared, and the choice says why.

NEAR = 1.05
"""Of oracles whose variance is within this of the least, the shortest report is taken."""

_MOST_STEPS = 10**11  # of a collector: minutes
_LONGEST = 1 << 13  # bytes of a report, unless told otherwise
_USUAL_PEOPLE = 10_000


def choose(
    domain: object,
    *,
    epsilon: Number | LocalEpsilon,
    n: int | None = None,
    most_bytes: int | None = None,
) -> Oracle:
    """The oracle for a domain, an epsilon, so many people and reports of so many bytes.

    Without `n` ten thousand people are thought of; without `most_bytes` 8,192 a report.
    """
    people = people_of(_USUAL_PEOPLE if n is None else n)
    room = _LONGEST if most_bytes is None else arguments.whole(most_bytes, "most_bytes")
    values, claimed = choices(domain), level(epsilon)
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
    # Where k-ary response is better anyway, hashing to e^epsilon numbers only takes room.
    if (
        min(people, values.size) * values.size <= _MOST_STEPS
        and math.exp(float(claimed)) < values.size
    ):
        oracles.append(OLH(values, epsilon=claimed))
    fitting = [oracle for oracle in oracles if oracle.layout.dtype.itemsize <= room]
    if not fitting:
        shortest = min(oracle.layout.dtype.itemsize for oracle in oracles)
        raise ParameterError(
            "parameter_out_of_range",
            f"No report over {values.size:,} values fits {room} bytes; the shortest takes "
            f"{shortest}. Allow as many, or declare fewer values.",
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
        oracle.name: f"{oracle.name} {math.sqrt(oracle.variance(people)):.3g} in {_bytes(oracle)}"
        for oracle in sorted(fitting, key=lambda oracle: -oracle.variance(people))
        if oracle.name != best.name
    }
    spread = math.sqrt(best.variance(people))
    return (
        f"sd of a rare value's share from {people:,} reports {spread:.3g} in {_bytes(best)}; "
        f"others: {', '.join(alternatives.values())}"
    )


def _bytes(oracle: Oracle) -> str:
    size = oracle.layout.dtype.itemsize
    return f"{size} byte{'s' * (size != 1)}"
