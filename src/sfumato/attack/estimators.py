"""From a sample to its population: how many people are alone in a population that nobody has seen.

All take how many classes of the sample have i rows (f_i), the rows of the sample (n) and the people
of the population (N), and estimate S, the number of people alone in the population.

*Zayatz*: class sizes of the population are distributed as those of the sample; a sample of n finds
one row of a class of i with the hypergeometric chance h(i), so a class of one row is alone with
chance f_1 h(1) / sum f_i h(i), and S = N / n times as many as there are such classes.
*Pitman*: the classes are those of a Pitman process (theta, alpha), fitted by maximum likelihood; of
N people as many are alone as the process has on average, N times the product over the other N - 1
people of the chance not to join, S = N Gamma(theta + 1) Gamma(theta + alpha + N - 1)
/ (Gamma(theta + alpha) Gamma(theta + N)); for N far above theta it is the paper's N^alpha.
*SNB*: class sizes less one are negative binomial; its two parameters and the number of classes are
fitted so that a sample of n of N has as many classes, and as many of one row, as this one has.
*Dankar's rule*: up to a tenth sampled Pitman, above it the smaller of SNB and Zayatz.

Each finds the truth of people who follow its law, from a sample that is not too small; others
follow none, and a small sample does not tell which (docs/benchmarks.md has figures). Decision 0302.

*Reference*: Zayatz 1991; Hoshino 2001; Chen and Keller-McNulty 1998; Dankar, El Emam, Neisa and
Roffey, Estimating the re-identification risk of clinical data sets, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite, lgamma, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.arrays import FloatArray, IntArray


_SMALL_FRACTION = 0.1


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """How many classes of a sample have each size, and the people of the population."""

    sizes: FloatArray
    classes: FloatArray
    population: int

    @classmethod
    def of(cls, rows: IntArray, population: int) -> ClassSizes:
        """The sizes of classes, each with how many classes have it."""
        sizes, classes = np.unique(rows, return_counts=True)
        return cls(sizes.astype(np.float64), classes.astype(np.float64), population)

    @property
    def rows(self) -> float:
        """The rows of the sample."""
        return float((self.sizes * self.classes).sum())

    @property
    def fraction(self) -> float:
        """The share of the population that was sampled."""
        return self.rows / self.population

    def having(self, size: int) -> float:
        """How many classes have a size."""
        return float(self.classes[self.sizes == size].sum())


def zayatz(sample: ClassSizes) -> float:
    """The estimate of Zayatz."""
    alone = sample.having(1)
    if not alone:
        return 0.0
    chances = _drawn_once(sample)
    found = float((sample.classes * chances).sum())
    if not found:
        return 0.0
    chance = alone * float(chances[sample.sizes == 1][0]) / found
    return sample.population / sample.rows * alone * chance


def _drawn_once(sample: ClassSizes) -> FloatArray:
    """The chance that a sample finds exactly one of i people, of those who are drawn from N."""
    people, drawn = sample.population, sample.rows
    log_all = _log_choose(people, drawn)
    possible = sample.sizes - 1 <= people - drawn
    logs = [
        log(i) + _log_choose(people - i, drawn - 1) - log_all if fits else -np.inf
        for i, fits in zip(sample.sizes.tolist(), possible.tolist(), strict=True)
    ]
    chances: FloatArray = np.exp(np.array(logs))
    return chances


def _log_choose(n: float, k: float) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def pitman(sample: ClassSizes) -> float | None:
    """The estimate by a Pitman process; None where no such process fits."""
    fitted = _fit_pitman(sample)
    if fitted is None:
        return None
    (theta, alpha), people = fitted, sample.population
    logs = lgamma(theta + 1) - lgamma(theta + alpha)
    logs += lgamma(theta + alpha + people - 1) - lgamma(theta + people)
    return people * exp(min(logs, 0.0))


def _fit_pitman(sample: ClassSizes) -> tuple[float, float] | None:
    """Climb the likelihood: for each alpha the best theta is found, the best alpha among them."""
    rows, classes = int(sample.rows), int(sample.classes.sum())
    if sample.having(1) == 0 or classes in (1, rows):
        return None

    def grown(theta: float, alpha: float) -> float:
        """The sum of 1 / (theta + alpha i) over the classes behind the first."""
        return float(_digamma(theta / alpha + classes) - _digamma(theta / alpha + 1)) / alpha

    def slope_theta(theta: float, alpha: float) -> float:
        return grown(theta, alpha) - float(_digamma(theta + rows) - _digamma(theta + 1))

    def slope_alpha(theta: float, alpha: float) -> float:
        more = (classes - 1 - theta * grown(theta, alpha)) / alpha
        inside = _digamma(sample.sizes - alpha) - _digamma(1 - alpha)
        return more - float((sample.classes * inside).sum())

    def best_theta(alpha: float) -> float:
        return _root(lambda theta: slope_theta(theta, alpha), 1e-6, 1e9)

    alpha = _root(lambda one: slope_alpha(best_theta(one), one), 1e-6, 1 - 1e-6, logarithmic=False)
    theta = best_theta(alpha)
    return (theta, alpha) if isfinite(theta) else None


def _digamma(x: float | FloatArray) -> FloatArray:
    """The derivative of the logarithm of the gamma function, of numbers above 0."""
    found, at = np.zeros(np.shape(x)), np.asarray(x, dtype=np.float64)
    for _ in range(8):
        found, at = found - 1 / at, at + 1
    series = 1 / 12 - (1 / 120 - (1 / 252 - (1 / 240 - 1 / (132 * at**2)) / at**2) / at**2) / at**2
    return found + np.log(at) - 1 / (2 * at) - series / at**2


def snb(sample: ClassSizes) -> float | None:
    """The estimate by a shifted negative binomial law; None where none fits."""
    people, fraction = float(sample.population), sample.fraction
    classes, alone = float(sample.classes.sum()), sample.having(1)
    if not alone or fraction >= 1:
        return alone if fraction >= 1 else None
    left = 1 - fraction

    def law(r: float) -> tuple[float, float]:
        """For a shape r: the p that gives as many classes as were seen, and how many there are."""

        def seen(p: float) -> float:
            total = people / (1 + r * (1 - p) / p)
            return float(total * (1 - left * (p / (1 - (1 - p) * left)) ** r) - classes)

        p = _root(lambda one: -seen(one), 1e-9, 1 - 1e-9, logarithmic=False)
        return p, people / (1 + r * (1 - p) / p)

    def surplus(r: float) -> float:
        p, total = law(r)
        base = 1 - (1 - p) * left
        thin = (p / base) ** r * (1 + left * r * (1 - p) / base)
        return float(total * fraction * thin - alone)

    ends = surplus(1e-4), surplus(1e4)
    if ends[0] * ends[1] > 0:
        return None
    sign = 1.0 if ends[0] > 0 else -1.0
    r = _root(lambda one: sign * surplus(one), 1e-4, 1e4)
    p, total = law(r)
    return min(float(total * p**r), people)


def dankar(sample: ClassSizes) -> tuple[str, float]:
    """The estimate that Dankar's rule takes, with its name."""
    first = zayatz(sample)
    if sample.fraction <= _SMALL_FRACTION:
        found = pitman(sample)
        return ("Zayatz", first) if found is None else ("Pitman", found)
    other = snb(sample)
    return ("SNB", other) if other is not None and other < first else ("Zayatz", first)


def deviation(sample: ClassSizes, estimate: Callable[[ClassSizes], float | None]) -> float:
    """The standard deviation of an estimate, where the number of classes of a size is Poisson.

    The sum over sizes of f_i times the squared effect of one class more, by the delta method, or of
    one class less where the population has no people for more. What does not fit moves nothing.
    """
    here, total = estimate(sample) or 0.0, 0.0
    for place in np.argsort(sample.sizes)[:8].tolist():  # larger ones hardly move it
        step = max(sqrt(float(sample.classes[place])), 1.0)
        moved = sample.classes.copy()
        room = sample.rows + step * float(sample.sizes[place]) <= sample.population
        moved[place] += step if room else -step
        there = estimate(ClassSizes(sample.sizes, moved, sample.population))
        effect = 0.0 if there is None else (there - here) / step
        total += float(sample.classes[place]) * effect**2
    return sqrt(total)


def paired(sample: ClassSizes) -> float:
    """The share of people who may have a twin though no two of a class were drawn.

    Of q N people in pairs q n^2 / 2N pairs are drawn whole; larger classes are seen sooner. With
    so many expected none is seen in 2.5 of 100 cases where they are -log 0.025.
    """
    if sample.having(1) < sample.rows:
        return 0.0
    return min(-log(0.025) * 2 * sample.population / sample.rows**2, 1.0) * (sample.fraction < 1)


def _root(
    falling: Callable[[float], float], low: float, high: float, *, logarithmic: bool = True
) -> float:
    """Where a falling function is zero; the end where it is nearest if it is nowhere."""
    for _ in range(48):
        middle = sqrt(low * high) if logarithmic else (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return sqrt(low * high) if logarithmic else (low + high) / 2
