"""The exact privacy loss of a method along transcripts: the sequence of its mechanisms' answers.

A method's release is a function of the answers of its mechanisms, so it reveals no more than their
sequence. Here the answers are not drawn but prescribed: the method runs on two neighbouring tables
with the same answers, and the probability of each answer, given the earlier ones, is computed
exactly. The logarithm of the ratio is the loss along that transcript, without statistics; the
largest one found is a lower bound on the loss of the method. Sampling would see only the most
likely outputs of a method with many mechanisms; this sees its whole loss.

Answers are prescribed where mechanisms are called: noise by its distribution, choices by the
probabilities that the mechanism passes to the sampler. Those distributions have their own audits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from unittest.mock import patch

import numpy as np

from sfumato.methods.publish import kdtree
from sfumato.methods.publish.kdtree import Medians
from sfumato.privacy.mechanisms import quantile
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.quantile import Quantile
from sfumato.privacy.mechanisms.selection import Exponential
from sfumato.privacy.mechanisms.sparse_vector import ABOVE, BELOW, STOPPED, Judgement, SparseVector
from sfumato.privacy.noise import selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.publish.spatial_tree import Division

Method = Callable[[Any], object]
"""Runs a method on a table; its result is ignored."""

# The share of steps that take an answer with the largest loss; the others explore.
_GREED = 0.8
# Losses closer than this are ties, decided at random.
_ALIKE = 1e-9
_REACH = 300
"""Noise further than this many scales has probability below 1e-130 and is left out."""
# The tail answer that is tried, in scales from the value.
_FAR = 8


class Law(Protocol):
    """The probability distribution of one answer."""

    def likely(self) -> Sequence[int]:
        """The answers to try."""
        ...

    def log(self, answer: int) -> float:
        """The logarithm of the probability of an answer."""
        ...


def largest_loss(method: Method, pair: tuple[Any, Any], *, tries: int = 40, seed: int = 1) -> float:
    """Search the largest loss along a transcript, a lower bound on the method's loss.

    Parameters
    ----------
    method : callable
        Runs the method on a table.
    pair : two tables
        Neighbours under the method's privacy unit.
    tries : int
        The number of transcripts.
    seed : int
        The seed of the search.

    Returns
    -------
    float
        The largest absolute loss; infinity if the tables lead to different numbers of answers.
    """
    draw = np.random.default_rng(seed)
    best = 0.0
    for _ in range(tries):
        script: list[list[int]] = []
        sign, loss = draw.choice((-1.0, 1.0)), 0.0
        while True:
            first_laws, second_laws = (_next_laws(method, side, script) for side in pair)
            # The number of answers is part of the output: if it differs, so do the tables, surely.
            if len(first_laws) != len(second_laws):
                return math.inf
            if not first_laws:
                break
            laws = list(zip(first_laws, second_laws, strict=True))
            answers = [_pick(first_law, second_law, sign, draw) for first_law, second_law in laws]
            loss += sum(
                first_law.log(answer) - second_law.log(answer)
                for (first_law, second_law), answer in zip(laws, answers, strict=True)
            )
            script.append(answers)
        best = max(best, abs(loss))
    return best


def _pick(first_law: Law, second_law: Law, sign: float, draw: np.random.Generator) -> int:
    """Choose an answer with the largest loss, or sometimes any answer."""
    answers = np.array(sorted({*first_law.likely(), *second_law.likely()}))
    losses = np.array(
        [sign * (first_law.log(answer) - second_law.log(answer)) for answer in answers.tolist()]
    )
    greedy = draw.random() < _GREED
    return int(draw.choice(answers[losses > losses.max() - _ALIKE] if greedy else answers))


def _next_laws(method: Method, table: Any, script: list[list[int]]) -> Sequence[Law]:
    """The distributions of the next answers after a script; none if the method has finished."""
    try:
        with _prescribed(_Prompter(script)):
            method(table)
    except _ScriptEndsError as end:
        return end.laws
    return ()


class _ScriptEndsError(Exception):
    """The method asks for more answers than are prescribed."""

    def __init__(self, laws: Sequence[Law]) -> None:
        super().__init__()
        self.laws = laws


@dataclass
class _Prompter:
    """Returns the prescribed answers in turn; after the last one it stops the method."""

    script: list[list[int]]
    turn: int = 0

    def answer(self, laws: Callable[[], Sequence[Law]]) -> list[int]:
        if self.turn == len(self.script):
            raise _ScriptEndsError(laws())
        self.turn += 1
        return self.script[self.turn - 1]


@dataclass(frozen=True)
class _Noisy:
    """A value with two-sided geometric noise."""

    value: int
    scale: float

    def likely(self) -> Sequence[int]:
        far = math.ceil(_FAR * self.scale)
        return [self.value + step for step in (-far, -1, 0, 1, far)]

    def log(self, answer: int) -> float:
        # P[value + k] = tanh(1 / (2 scale)) exp(-|k| / scale).
        return math.log(math.tanh(0.5 / self.scale)) - abs(answer - self.value) / self.scale


@dataclass
class _Chances:
    """Finitely many answers and their probabilities."""

    chances: dict[int, float] = field(default_factory=dict)

    def add(self, answer: int, chance: float) -> None:
        self.chances[answer] = self.chances.get(answer, 0.0) + chance

    def likely(self) -> Sequence[int]:
        return list(self.chances)

    def log(self, answer: int) -> float:
        chance = self.chances.get(answer, 0.0)
        return math.log(chance) if chance > 0 else -math.inf


@contextmanager
def _prescribed(prompter: _Prompter) -> Iterator[None]:
    """Patch every mechanism to take its answers from the prompter instead of drawing."""
    exponential, ranked, middle = Exponential.sample, Quantile.sample, Medians.sample

    def steps(self: Geometric, values: Any, _entropy: object) -> NDArray[Any]:
        array = np.asarray(values)
        if not array.size:
            return array
        answers = prompter.answer(
            lambda: [_Noisy(int(value), float(self.scale)) for value in array.ravel()]
        )
        return np.array(answers, dtype=np.int64).reshape(array.shape)

    def choice(self: Exponential, values: Any, entropy: Any) -> IntArray:
        answers = prompter.answer(lambda: _laws(lambda: exponential(self, values, entropy).ravel()))
        return np.array(answers).reshape(np.asarray(values).shape[:-1])

    def point(self: Quantile, values: Any, entropy: Any) -> IntArray:
        return np.array(prompter.answer(lambda: _laws(lambda: ranked(self, values, entropy))))

    def cuts(self: Medians, division: Division, axis: int, entropy: Any) -> IntArray:
        wide = division.sizes(axis) > 1
        cut_points = division.highs[:, axis].copy()
        if wide.any():
            cut_points[wide] = prompter.answer(
                lambda: _laws(lambda: middle(self, division, axis, entropy)[wide])
            )
        return cut_points

    def start(self: SparseVector, threshold: int, _entropy: object, *, runs: int) -> _Judging:
        assert runs == 1  # several runs would need a joint distribution of their thresholds
        return _Judging(self, threshold, prompter)

    with ExitStack() as patches:
        for kind, name, prescribed in (
            (Geometric, "steps", steps),
            (Geometric, "sample", steps),
            (Exponential, "sample", choice),
            (Quantile, "sample", point),
            (Medians, "sample", cuts),
            (SparseVector, "start", start),
        ):
            patches.enter_context(patch.object(kind, name, prescribed))
        yield


def _laws(sample: Callable[[], IntArray]) -> list[_Chances]:
    """The distribution of each choice of one sample, by enumerating every index and point."""
    walk = _Walk()
    with ExitStack() as patches:
        for module in (selection, quantile, kdtree):
            patches.enter_context(patch.object(module, "choose_within", walk.choose))
        for module in (quantile, kdtree):
            patches.enter_context(patch.object(module, "uniform_below", walk.within))
        laws: list[_Chances] = []
        while not walk.is_finished:
            answers = sample()
            laws = laws or [_Chances() for _ in answers]
            for law, answer, chance in zip(laws, answers.tolist(), walk.chances(), strict=True):
                if chance > 0:
                    law.add(answer, chance)
            walk.step()
    return laws


@dataclass
class _Walk:
    """Replaces samplers: returns in turn each index of each run, and each point of its range."""

    position: int = 0
    point: int = 0
    is_finished: bool = False
    _run_chances: list[FloatArray] = field(default_factory=list)
    _limits: IntArray | None = None

    def choose(
        self,
        scores: NDArray[Any],
        starts: NDArray[np.integer],
        *,
        rate: Any,
        weights: NDArray[Any] | None = None,
        entropy: object,
    ) -> IntArray:
        assert entropy is None
        heights = float(rate) * scores.astype(np.float64)
        if weights is not None:
            heights += np.log(weights.astype(np.float64))
        self._run_chances, self._limits = [], None
        for run in np.split(heights, starts[1:]):
            raised = np.exp(run - run.max())  # shifted, so that nothing overflows
            self._run_chances.append(raised / raised.sum())
        last = np.array([len(run) for run in self._run_chances]) - 1
        return np.asarray(starts + np.minimum(self.position, last), dtype=np.int64)

    def within(self, limits: NDArray[Any], entropy: object) -> IntArray:
        assert entropy is None
        self._limits = limits.astype(np.int64)
        return np.minimum(self.point, self._limits - 1)

    def chances(self) -> list[float]:
        """The probability of the last choice, for each run; 0 if the run has no such index."""
        limits = np.ones(len(self._run_chances), np.int64) if self._limits is None else self._limits
        return [
            float(run[self.position]) / limit
            if self.position < len(run) and self.point < limit
            else 0.0
            for run, limit in zip(self._run_chances, limits.tolist(), strict=True)
        ]

    def step(self) -> None:
        limit = 1 if self._limits is None else int(self._limits.max())
        self.point += 1
        if self.point >= limit:
            self.position, self.point = self.position + 1, 0
        self.is_finished = self.position >= max(map(len, self._run_chances))


class _Judging:
    """A run of the sparse vector technique; the noise of its threshold is summed over."""

    def __init__(self, mechanism: SparseVector, threshold: int, prompter: _Prompter) -> None:
        self._mechanism, self._prompter, self._positives = mechanism, prompter, 0
        scale = float(mechanism.threshold_scale)
        reach = math.ceil(_REACH * scale)
        self._lines = threshold + np.arange(-reach, reach + 1)
        self._weights = np.exp(-np.abs(self._lines - threshold) / scale)
        self._weights /= self._weights.sum()

    def ask(self, values: IntArray) -> Judgement:
        """Judge one query; after `cutoff` positive answers the data are not used any more."""
        if self._positives == self._mechanism.cutoff:
            return Judgement(np.array([STOPPED]), None)
        gaps, scale = self._lines - int(values[0]), float(self._mechanism.query_scale)
        sides = {ABOVE: _tail(gaps, scale), BELOW: _tail(1 - gaps, scale)}
        verdict = self._prompter.answer(
            lambda: [
                _Chances(
                    {
                        side: float(self._weights @ tail_chances)
                        for side, tail_chances in sides.items()
                    }
                )
            ]
        )[0]
        # Bayes: the answer changes what is known about the noise of the threshold.
        self._weights = self._weights * sides[verdict]
        self._weights /= self._weights.sum()
        self._positives += verdict == ABOVE
        return Judgement(np.array([verdict]), None)


def _tail(steps: IntArray, scale: float) -> FloatArray:
    """The probability that two-sided geometric noise is at least `steps`."""
    ratio = math.exp(-1 / scale)
    far = np.power(ratio, np.abs(steps))
    return np.where(steps > 0, far / (1 + ratio), 1 - far * ratio / (1 + ratio))
