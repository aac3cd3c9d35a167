"""The exact loss of a method along transcripts: all that was measured and chosen, in order.

Whatever a method releases is made of the answers of its mechanisms, so nothing it releases tells
more than their sequence. Here these answers are not drawn but prescribed: a method is run on two
neighbouring tables with the same answers, and the chances of each answer, given those before it,
are exact. The logarithm of their quotient is the loss along that transcript, without any
statistics; the largest one found bounds the loss of the method from below. A method of many
mechanisms, of which sampling sees only the most likely outputs, shows its whole loss so.

Answers are prescribed where mechanisms are called: noise by its law, choices by the chances that
the mechanism hands to the sampler. Those laws have audits of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from unittest.mock import patch

import numpy as np

from sfumato.methods.publish.spatial import kdtree
from sfumato.methods.publish.spatial.kdtree import Medians
from sfumato.privacy.mechanisms import quantile
from sfumato.privacy.mechanisms.laplace import Geometric
from sfumato.privacy.mechanisms.quantile import Quantile
from sfumato.privacy.mechanisms.selection import Exponential
from sfumato.privacy.mechanisms.sparse_vector import ABOVE, BELOW, STOPPED, Judgement, SparseVector
from sfumato.privacy.noise import selection

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.methods.publish.spatial.growth import Division

Method = Callable[[Any], object]
"""Runs a method on a table; what it gives does not matter."""

_GREED = 0.8
_ALIKE = 1e-9
_REACH = 300
"""So many scales from its middle the chance of noise is below 1e-130, and left out."""
_FAR = 8


class Law(Protocol):
    """The law of one answer."""

    def likely(self) -> Sequence[int]:
        """Answers worth trying."""
        ...

    def log(self, answer: int) -> float:
        """The logarithm of the chance of an answer."""
        ...


def largest_loss(method: Method, pair: tuple[Any, Any], *, tries: int = 40, seed: int = 1) -> float:
    """The largest loss found along a transcript; infinite where tables differ in what is asked."""
    draw = np.random.default_rng(seed)
    best = 0.0
    for _ in range(tries):
        script: list[list[int]] = []
        sign, loss = draw.choice((-1.0, 1.0)), 0.0
        while True:
            first, second = (_asked_next(method, side, script) for side in pair)
            if len(first) != len(second):
                return math.inf
            if not first:
                break
            laws = list(zip(first, second, strict=True))
            answers = [_pick(one, other, sign, draw) for one, other in laws]
            loss += sum(
                one.log(answer) - other.log(answer)
                for (one, other), answer in zip(laws, answers, strict=True)
            )
            script.append(answers)
        best = max(best, abs(loss))
    return best


def _pick(one: Law, other: Law, sign: float, draw: np.random.Generator) -> int:
    """One of the answers that tell the sides apart best, or now and then any."""
    answers = np.array(sorted({*one.likely(), *other.likely()}))
    told = np.array([sign * (one.log(answer) - other.log(answer)) for answer in answers.tolist()])
    greedy = draw.random() < _GREED
    return int(draw.choice(answers[told > told.max() - _ALIKE] if greedy else answers))


def _asked_next(method: Method, table: Any, script: list[list[int]]) -> Sequence[Law]:
    """The laws of what a method asks after a script of answers; none where it is done."""
    try:
        with _prescribed(_Prompter(script)):
            method(table)
    except _ScriptEndsError as end:
        return end.laws
    return ()


class _ScriptEndsError(Exception):
    """The method asks for more than is prescribed."""

    def __init__(self, laws: Sequence[Law]) -> None:
        super().__init__()
        self.laws = laws


@dataclass
class _Prompter:
    """Gives the prescribed answers in turn; once there are no more, it stops the method."""

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
        return math.log(math.tanh(0.5 / self.scale)) - abs(answer - self.value) / self.scale


@dataclass
class _Chances:
    """Finitely many answers and their chances."""

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
    """Let every mechanism ask the prompter in place of drawing."""
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
        found = division.highs[:, axis].copy()
        if wide.any():
            found[wide] = prompter.answer(
                lambda: _laws(lambda: middle(self, division, axis, entropy)[wide])
            )
        return found

    def start(self: SparseVector, threshold: int, _entropy: object, *, runs: int) -> _Judging:
        assert runs == 1
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
    """The law of each choice of one sample, found by taking every place and every point in it."""
    walk = _Walk()
    with ExitStack() as patches:
        for module in (selection, quantile, kdtree):
            patches.enter_context(patch.object(module, "choose_within", walk.choose))
        for module in (quantile, kdtree):
            patches.enter_context(patch.object(module, "uniform_below", walk.within))
        laws: list[_Chances] = []
        while not walk.done:
            given = sample()
            laws = laws or [_Chances() for _ in given]
            for law, answer, chance in zip(laws, given.tolist(), walk.chances(), strict=True):
                if chance > 0:
                    law.add(answer, chance)
            walk.step()
    return laws


@dataclass
class _Walk:
    """Stands in for samplers: in turn each place of each run, and each point of that place."""

    place: int = 0
    point: int = 0
    done: bool = False
    _places: list[FloatArray] = field(default_factory=list)
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
        self._places, self._limits = [], None
        for run in np.split(heights, starts[1:]):
            raised = np.exp(run - run.max())
            self._places.append(raised / raised.sum())
        last = np.array([len(run) for run in self._places]) - 1
        return np.asarray(starts + np.minimum(self.place, last), dtype=np.int64)

    def within(self, limits: NDArray[Any], entropy: object) -> IntArray:
        assert entropy is None
        self._limits = limits.astype(np.int64)
        return np.minimum(self.point, self._limits - 1)

    def chances(self) -> list[float]:
        """The chance of what was just given, for each run; 0 where it has no such place."""
        limits = np.ones(len(self._places), np.int64) if self._limits is None else self._limits
        return [
            float(run[self.place]) / limit if self.place < len(run) and self.point < limit else 0.0
            for run, limit in zip(self._places, limits.tolist(), strict=True)
        ]

    def step(self) -> None:
        limit = 1 if self._limits is None else int(self._limits.max())
        self.point += 1
        if self.point >= limit:
            self.place, self.point = self.place + 1, 0
        self.done = self.place >= max(map(len, self._places))


class _Judging:
    """A run of the sparse vector: its threshold's noise stays unknown, and is summed over."""

    def __init__(self, mechanism: SparseVector, threshold: int, prompter: _Prompter) -> None:
        self._mechanism, self._prompter, self._positives = mechanism, prompter, 0
        scale = float(mechanism.threshold_scale)
        reach = math.ceil(_REACH * scale)
        self._lines = threshold + np.arange(-reach, reach + 1)
        self._weights = np.exp(-np.abs(self._lines - threshold) / scale)
        self._weights /= self._weights.sum()

    def ask(self, values: IntArray) -> Judgement:
        """Judge one query; once enough were above, nothing more is asked of the data."""
        if self._positives == self._mechanism.cutoff:
            return Judgement(np.array([STOPPED]), None)
        gaps, scale = self._lines - int(values[0]), float(self._mechanism.query_scale)
        sides = {ABOVE: _tail(gaps, scale), BELOW: _tail(1 - gaps, scale)}
        verdict = self._prompter.answer(
            lambda: [_Chances({side: float(self._weights @ one) for side, one in sides.items()})]
        )[0]
        self._weights = self._weights * sides[verdict]
        self._weights /= self._weights.sum()
        self._positives += verdict == ABOVE
        return Judgement(np.array([verdict]), None)


def _tail(steps: IntArray, scale: float) -> FloatArray:
    """The chance that two-sided geometric noise is at least so many steps."""
    ratio = math.exp(-1 / scale)
    far = np.power(ratio, np.abs(steps))
    return np.where(steps > 0, far / (1 + ratio), 1 - far * ratio / (1 + ratio))
