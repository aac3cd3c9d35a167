"""Uniqueness: a person who is unique in the population is re-identified by their released row.

*Attacker*: knows that the victim is in the population, and has a complete list of it.
*Success*: the share of released people who are unique in the population by the released columns.
With the population's list (`known`) it is counted. Otherwise it is estimated from the classes of
the release and `population_size`, by the estimator that Dankar's rule picks. Where the schema says
whose rows are, classes are of people, and a person is unique if they are in any class.
*Baseline*: naming anybody of the population.
*Victims*: released people who are unique in the population; none for an estimate, because nobody is
certain (a remark gives the expected number). The interval of an estimate covers the intervals of
all estimators, but nobody can be unique in the population who is not unique in the release.
Remarks give the risk from a prosecutor, who knows that the victim is in the release, a journalist,
who does not, and a marketer, who links everyone, and every estimate.

The estimators take the number f_i of classes with i rows, the rows n of the sample and the people N
of the population, and estimate the number S of people who are unique in the population.
*Zayatz*: class sizes of the population are distributed as those of the sample. A sample of n finds
one row of a class of i with the hypergeometric chance h(i), so a class of one row is unique with
chance f_1 h(1) / sum f_i h(i), and S is N / n times the number of such classes.
*Pitman*: classes come from a Pitman process (theta, alpha), fitted by maximum likelihood.
S = N Gamma(theta + 1) Gamma(theta + alpha + N - 1) / (Gamma(theta + alpha) Gamma(theta + N)) is the
mean number of people whom nobody joins; for N far above theta it is the paper's N^alpha.
*SNB*: class sizes less one are negative binomial. Both parameters and the number of classes are
fitted so that a sample of n has as many classes, and as many of one row, as this one.
*Dankar's rule*: Pitman up to a sampled tenth, above it the smaller of SNB and Zayatz.
Each is right for people who follow its law and a sample that is not too small (docs/benchmarks.md).
Decision `matching`.
*Reference*: Zayatz 1991; Hoshino 2001; Chen and Keller-McNulty 1998; Dankar, El Emam, Neisa and
Roffey, Estimating the re-identification risk of clinical data sets, 2012.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite, lgamma, log, sqrt
from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed_quasi
from sfumato.attack.classes import boxes_of
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.matching import alike_in, crowds
from sfumato.attack.person_counts import count_people, counted_people, person_in, persons, rate
from sfumato.errors import option

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import Case


NAME = "uniqueness"


_SMALL = 0.05
"""Below this share of the population the remarks warn that estimates are unreliable."""


def run(case: Case) -> Finding:
    """Count the released people who are unique in the population, or estimate their share."""
    if case.known is None and case.options.population_size is None:
        raise cannot_run(
            NAME,
            f"it needs the population, as a list with {option('known', metavar='FILE')} or as a "
            f"number with {option('population_size', metavar='N')}.",
        )
    quasi = needed_quasi(case, NAME, *([] if case.known is None else [case.known]))
    names, lists = [column.name for column in quasi], [] if case.known is None else [case.known]
    unit = person_in(case, case.release.table, *lists)
    people = None if case.known is None else case.known.counted([*names, *unit])
    rows = case.release.table.counted([*names, *unit])
    classes = rows.people(names, unit[0]) if unit else rows
    released = boxes_of(classes, quasi, [] if people is None else [people])
    listed = 0 if people is None else count_people(people, unit)
    asked, least = case.options.population_size, count_people(rows, unit)
    if asked is not None and asked < least:
        raise cannot_run(
            NAME,
            f"the release has {least:,} people, more than the {option('population_size')} of "
            f"{asked:,}. Give the number of all people whom the release is drawn from.",
        )
    # A population has at least the released people.
    size = max(asked or listed, least)
    sample = ClassSizes.of(released.sizes, max(size, released.rows))
    remarks = _estimates(sample)
    alone_here = int((released.sizes == 1).sum())
    remarks.append(
        f"A prosecutor is right in {percent(len(released) / max(released.rows, 1))} of cases."
    )
    if people is None:
        success = _estimate_unique(sample)
        expected = round(success.value * success.tried)
        remarks.append(
            f"About {expected:,} released people are expected to be alone; it is not known who."
        )
    else:
        crowd = crowds(released, people, persons(people, unit) if unit else None)
        crowd = np.maximum(crowd, released.sizes)  # released people are in the population
        alone = (crowd == 1)[alike_in(rows, names)]
        success = rate(rows, unit, alone.astype(np.float64), rows.counts.astype(np.float64))
        remarks.append(_linkage_sentence(released.sizes, crowd))
    remarks.append(f"{alone_here:,} of {released.rows:,} are alone in the release.")
    remarks += counted_people(unit, "a person who is alone in any class counts as alone")
    return Finding(
        attack=NAME,
        attacker=f"has a list of the population of {size:,} people",
        meaning="People who are alone in the population",
        success=success,
        baseline=Rate.share(success.tried / size, success.tried),
        victims=0 if people is None else round(success.value * success.tried),
        remarks=remarks,
        rows=rows.total + (0 if people is None else people.total),
        reference="Dankar et al. 2012",
    )


def _estimate_unique(sample: ClassSizes) -> Rate:
    """Estimate the share of released people who are unique: that of the whole population.

    This assumes that everybody was equally likely to be released.
    """
    people, rows = sample.population, round(sample.rows)
    every = [
        Rate.estimate(alone / people, deviation(sample, estimator) / people, rows)
        for estimator in (zayatz, pitman, snb)
        if (alone := estimator(sample)) is not None
    ]
    # Nobody can be unique in the population who is not unique in the sample.
    most = sample.having(1) / sample.rows
    low = min(min(rate.low for rate in every), 1 - paired(sample), most)
    high = min(max(rate.high for rate in every), most)
    return Rate(min(max(dankar(sample)[1] / people, low), high), low, high, rows)


def _estimates(sample: ClassSizes) -> list[str]:
    chosen, _ = dankar(sample)
    figures = {"Zayatz": zayatz(sample), "Pitman": pitman(sample), "SNB": snb(sample)}
    figures_text = ", ".join(
        f"{name} {'does not fit' if figure is None else percent(figure / sample.population)}"
        for name, figure in figures.items()
    )
    remarks = [
        f"Estimated share of people alone in the population: {figures_text}; {chosen} is used."
    ]
    if sample.fraction < _SMALL:
        remarks.append(
            f"A release of {percent(sample.fraction)} of the population says little about the "
            "rest: estimates from so few people can be several times too high or half too low."
        )
    return remarks


def _linkage_sentence(sizes: IntArray, crowd: FloatArray) -> str:
    highest, mean = float(1 / crowd.min()), float((sizes / crowd).sum() / sizes.sum())
    return f"A journalist is right in up to {percent(highest)}, a marketer in {percent(mean)}."


_SMALL_FRACTION = 0.1
"""The tenth of Dankar's rule."""


@dataclass(frozen=True, eq=False)
class ClassSizes:
    """The number of classes of each size in a sample, and the size of the population."""

    sizes: FloatArray
    classes: FloatArray
    population: int

    @classmethod
    def of(cls, rows: IntArray, population: int) -> ClassSizes:
        """Count classes by their size."""
        sizes, classes = np.unique(rows, return_counts=True)
        return cls(sizes.astype(np.float64), classes.astype(np.float64), population)

    @property
    def rows(self) -> float:
        """The number of rows of the sample."""
        return float((self.sizes * self.classes).sum())

    @property
    def fraction(self) -> float:
        """The share of the population that was sampled."""
        return self.rows / self.population

    def having(self, size: int) -> float:
        """Return the number of classes of a size."""
        return float(self.classes[self.sizes == size].sum())


def zayatz(sample: ClassSizes) -> float:
    """Return the estimate of Zayatz 1991."""
    alone = sample.having(1)
    if not alone:
        return 0.0
    chances = _drawn_once(sample)
    expected_singles = float((sample.classes * chances).sum())
    if not expected_singles:
        return 0.0
    chance = alone * float(chances[sample.sizes == 1][0]) / expected_singles
    return sample.population / sample.rows * alone * chance


def _drawn_once(sample: ClassSizes) -> FloatArray:
    """Return for each class size i the hypergeometric chance h(i) to sample exactly one of i."""
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
    """Return the estimate by a Pitman process (Hoshino 2001); None if no such process fits."""
    fitted = _fit_pitman(sample)
    if fitted is None:
        return None
    (theta, alpha), people = fitted, sample.population
    logs = lgamma(theta + 1) - lgamma(theta + alpha)
    logs += lgamma(theta + alpha + people - 1) - lgamma(theta + people)
    return people * exp(min(logs, 0.0))


def _fit_pitman(sample: ClassSizes) -> tuple[float, float] | None:
    """Maximize the likelihood: the best theta for each alpha, then the best alpha.

    The log likelihood of k classes of sizes n_j in n rows is sum_{i<k} log(theta + alpha i)
    - log Gamma(theta + n) / Gamma(theta + 1) + sum_j log Gamma(n_j - alpha) / Gamma(1 - alpha).
    Both slopes are its derivatives.
    """
    rows, classes = int(sample.rows), int(sample.classes.sum())
    # No Pitman process is fitted to one class, to single rows alone, or without single rows.
    if sample.having(1) == 0 or classes in (1, rows):
        return None

    def grown(theta: float, alpha: float) -> float:
        """Return the sum of 1 / (theta + alpha i) over the classes after the first."""
        return float(_digamma(theta / alpha + classes) - _digamma(theta / alpha + 1)) / alpha

    def slope_theta(theta: float, alpha: float) -> float:
        return grown(theta, alpha) - float(_digamma(theta + rows) - _digamma(theta + 1))

    def slope_alpha(theta: float, alpha: float) -> float:
        class_term = (classes - 1 - theta * grown(theta, alpha)) / alpha
        inside = _digamma(sample.sizes - alpha) - _digamma(1 - alpha)
        return class_term - float((sample.classes * inside).sum())

    def best_theta(alpha: float) -> float:
        return _root(lambda theta: slope_theta(theta, alpha), 1e-6, 1e9)

    alpha = _root(
        lambda shape: slope_alpha(best_theta(shape), shape), 1e-6, 1 - 1e-6, logarithmic=False
    )
    theta = best_theta(alpha)
    return (theta, alpha) if isfinite(theta) else None


def _digamma(x: float | FloatArray) -> FloatArray:
    """Return the digamma function, the derivative of log Gamma, for numbers above 0."""
    total, at = np.zeros(np.shape(x)), np.asarray(x, dtype=np.float64)
    for _ in range(8):
        total, at = total - 1 / at, at + 1
    # Asymptotic series of the digamma function; the recurrence above has moved x beyond 8.
    series = 1 / 12 - (1 / 120 - (1 / 252 - (1 / 240 - 1 / (132 * at**2)) / at**2) / at**2) / at**2
    return total + np.log(at) - 1 / (2 * at) - series / at**2


def snb(sample: ClassSizes) -> float | None:
    """Return the estimate by a shifted negative binomial law; None if none fits."""
    people, fraction = float(sample.population), sample.fraction
    classes, alone = float(sample.classes.sum()), sample.having(1)
    # The whole population was sampled: its unique people are counted, not estimated.
    if not alone or fraction >= 1:
        return alone if fraction >= 1 else None
    unsampled = 1 - fraction

    def law(r: float) -> tuple[float, float]:
        """For a shape r: the p that gives as many classes as were seen, and how many there are."""

        def seen(p: float) -> float:
            total = people / (1 + r * (1 - p) / p)
            return float(total * (1 - unsampled * (p / (1 - (1 - p) * unsampled)) ** r) - classes)

        p = _root(lambda chance: -seen(chance), 1e-9, 1 - 1e-9, logarithmic=False)
        return p, people / (1 + r * (1 - p) / p)

    def surplus(r: float) -> float:
        p, total = law(r)
        # The number of classes with exactly one sampled row under the law; it must equal those
        # seen.
        base = 1 - (1 - p) * unsampled
        thin = (p / base) ** r * (1 + unsampled * r * (1 - p) / base)
        return float(total * fraction * thin - alone)

    # No sign change, no solution: the law does not fit.
    ends = surplus(1e-4), surplus(1e4)
    if ends[0] * ends[1] > 0:
        return None
    sign = 1.0 if ends[0] > 0 else -1.0
    r = _root(lambda shape: sign * surplus(shape), 1e-4, 1e4)
    p, total = law(r)
    return min(float(total * p**r), people)


def dankar(sample: ClassSizes) -> tuple[str, float]:
    """Return the estimate that Dankar's rule chooses, with its name."""
    first = zayatz(sample)
    if sample.fraction <= _SMALL_FRACTION:
        pitman_estimate = pitman(sample)
        return ("Zayatz", first) if pitman_estimate is None else ("Pitman", pitman_estimate)
    snb_estimate = snb(sample)
    return (
        ("SNB", snb_estimate)
        if snb_estimate is not None and snb_estimate < first
        else ("Zayatz", first)
    )


def deviation(sample: ClassSizes, estimate: Callable[[ClassSizes], float | None]) -> float:
    """Return the standard deviation of an estimate, if numbers of classes are Poisson.

    By the delta method its square is the sum over sizes i of f_i times the squared effect of one
    more class, or of one class less if the population has no people for more. A changed sample that
    no law fits has no effect.
    """
    estimated, total = estimate(sample) or 0.0, 0.0
    for size_index in np.argsort(sample.sizes)[:8].tolist():  # larger ones hardly move it
        step = max(sqrt(float(sample.classes[size_index])), 1.0)
        moved = sample.classes.copy()
        room = sample.rows + step * float(sample.sizes[size_index]) <= sample.population
        moved[size_index] += step if room else -step
        moved_estimate = estimate(ClassSizes(sample.sizes, moved, sample.population))
        effect = 0.0 if moved_estimate is None else (moved_estimate - estimated) / step
        total += float(sample.classes[size_index]) * effect**2
    return sqrt(total)


def paired(sample: ClassSizes) -> float:
    """Return the share of people who may not be unique although every sampled class has one row.

    If a share q of N people come in pairs, a sample of n draws q n^2 / 2N whole pairs on average.
    None is drawn with chance 0.025 if this number is -log 0.025. Larger classes show sooner.
    """
    if sample.having(1) < sample.rows:
        return 0.0
    return min(-log(0.025) * 2 * sample.population / sample.rows**2, 1.0) * (sample.fraction < 1)


def _root(
    falling: Callable[[float], float], low: float, high: float, *, logarithmic: bool = True
) -> float:
    """Return the zero of a falling function by halving; an end of the bracket if it has none."""
    for _ in range(48):
        middle = sqrt(low * high) if logarithmic else (low + high) / 2
        low, high = (middle, high) if falling(middle) > 0 else (low, middle)
    return sqrt(low * high) if logarithmic else (low + high) / 2
