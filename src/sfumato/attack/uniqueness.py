"""Uniqueness: whoever is alone in the release may be alone among all people, and then is found.

*Attacker*: knows that the victim is in the population, and has a list of it that is complete.
*Success*: the share of released people who are alone in the population by what was released: with
the list of the population (`known`) counted, without it estimated from the classes of the release
and the `population_size`, by the estimator that Dankar's rule takes.
Where the schema says whose rows are, classes are of people, and one who is alone in any class is.
*Baseline*: naming anybody of the population.
*Victims*: released people who are alone in the population; none where that is an estimate, of which
nobody is sure: remarks say how many are expected. The interval of an estimate holds those of all
estimators, as far as nobody is alone in the population who is not alone in the release.
The remarks tell the risk of a prosecutor, who knows that the victim is in the release, of a
journalist, who does not, and of a marketer, who links everyone, and what each estimator says.
*Reference*: Dankar, El Emam, Neisa and Roffey 2012; see `estimators`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sfumato.attack.case import cannot_run, needed_quasi
from sfumato.attack.classes import boxes_of
from sfumato.attack.estimators import ClassSizes, dankar, deviation, paired, pitman, snb, zayatz
from sfumato.attack.finding import Finding, Rate, percent
from sfumato.attack.named_list import alike_in, crowds
from sfumato.attack.persons import counted_people, how_many, person_in, persons, rate
from sfumato.errors import option

if TYPE_CHECKING:
    from sfumato.arrays import FloatArray, IntArray
    from sfumato.attack.case import Case

NAME = "uniqueness"
_SMALL = 0.05
"""Below this share of the population the law of class sizes is guessed rather than seen."""


def run(case: Case) -> Finding:
    """Count who is alone in the population, or estimate it."""
    if case.known is None and case.options.population_size is None:
        raise cannot_run(
            NAME,
            f"it needs the population, as a list with {option('known', metavar='FILE')} or as a "
            f"number with {option('population_size', metavar='N')}.",
        )
    quasi = needed_quasi(case, NAME, *([] if case.known is None else [case.known]))
    names, lists = [one.name for one in quasi], [] if case.known is None else [case.known]
    unit = person_in(case, case.release.table, *lists)
    people = None if case.known is None else case.known.counted([*names, *unit])
    rows = case.release.table.counted([*names, *unit])
    classes = rows.people(names, unit[0]) if unit else rows
    found = boxes_of(classes, quasi, [] if people is None else [people])
    listed = 0 if people is None else how_many(people, unit)
    asked, least = case.options.population_size, how_many(rows, unit)
    if asked is not None and asked < least:
        raise cannot_run(
            NAME,
            f"the release has {least:,} people, more than the {option('population_size')} of "
            f"{asked:,}. Give the number of all people whom the release is drawn from.",
        )
    size = max(asked or listed, least)
    sample = ClassSizes.of(found.sizes, max(size, found.rows))
    told = _estimates(sample)
    alone_here = int((found.sizes == 1).sum())
    told.append(f"A prosecutor is right in {percent(len(found) / max(found.rows, 1))} of cases.")
    if people is None:
        success = _estimated(sample)
        expected = round(success.value * success.tried)
        told.append(f"Expected are {expected:,} released people who are alone; who, is not known.")
    else:
        crowd = crowds(found, people, persons(people, unit) if unit else None)
        crowd = np.maximum(crowd, found.sizes)  # who is released is one of them
        alone = (crowd == 1)[alike_in(rows, names)]
        success = rate(rows, unit, alone.astype(np.float64), rows.counts.astype(np.float64))
        told.append(_linked(found.sizes, crowd))
    told.append(f"{alone_here:,} of {found.rows:,} are alone in the release.")
    told += counted_people(unit, "one is alone who is in any class")
    return Finding(
        attack=NAME,
        attacker=f"has a list of the population of {size:,} people",
        meaning="People who are alone in the population",
        success=success,
        baseline=Rate.share(success.tried / size, success.tried),
        victims=0 if people is None else round(success.value * success.tried),
        remarks=told,
        rows=rows.total + (0 if people is None else people.total),
        reference="Dankar et al. 2012",
    )


def _estimated(sample: ClassSizes) -> Rate:
    """The share of released people who are alone: as that of all people, who are drawn alike."""
    people, rows = sample.population, round(sample.rows)
    every = [
        Rate.estimate(found / people, deviation(sample, one) / people, rows)
        for one in (zayatz, pitman, snb)
        if (found := one(sample)) is not None
    ]
    most = sample.having(1) / sample.rows
    low = min(min(one.low for one in every), 1 - paired(sample), most)
    high = min(max(one.high for one in every), most)
    return Rate(min(max(dankar(sample)[1] / people, low), high), low, high, rows)


def _estimates(sample: ClassSizes) -> list[str]:
    chosen, _ = dankar(sample)
    figures = {"Zayatz": zayatz(sample), "Pitman": pitman(sample), "SNB": snb(sample)}
    told = ", ".join(
        f"{name} {'does not fit' if one is None else percent(one / sample.population)}"
        for name, one in figures.items()
    )
    found = [f"Estimated share of people alone in the population: {told}; taken is {chosen}."]
    if sample.fraction < _SMALL:
        found.append(
            f"A release of {percent(sample.fraction)} of the population tells little of the rest: "
            "estimates from so few can be several times too high or half too low."
        )
    return found


def _linked(sizes: IntArray, crowd: FloatArray) -> str:
    highest, mean = float(1 / crowd.min()), float((sizes / crowd).sum() / sizes.sum())
    return f"A journalist is right in up to {percent(highest)}, a marketer in {percent(mean)}."
