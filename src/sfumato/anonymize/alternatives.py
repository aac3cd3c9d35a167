"""Other releases of the same table: cheaper options to advise, and a ladder to choose from.

Advice is computed from the original, so it is for the holder alone. Decisions `optimal-search` and
`release-gate`.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.anonymize.search import SEARCHES, run
from sfumato.errors import (
    Option,
    OutputError,
    RefusedError,
    SfumatoError,
    in_fields,
    option,
)
from sfumato.release.output import Output

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping
    from pathlib import Path

    from sfumato.anonymize.criteria.request import CriteriaRequest
    from sfumato.anonymize.outcome import Outcome
    from sfumato.anonymize.problem import Problem
    from sfumato.anonymize.result import Anonymized
    from sfumato.anonymize.search import SearchProgress
    from sfumato.errors import Spelling


_ALGORITHMS = ("mondrian", "optimal")
_SHARES = (1, 2, 5)
"""Percentages of rows, or people, to suppress that are tried."""
_LONGEST, _HEAD_START = 5.0, 1.5
"""Seconds that advice may take at most, and seconds that it gets beyond the time of the search."""
_MOST_COMBINATIONS = 200_000
"""Larger tables are not searched again, because a search would exceed these seconds."""
TOO_LARGE = (
    "Nothing was tried that might lose less: the table has more than "
    f"{_MOST_COMBINATIONS:,} different combinations of values, too many to search twice."
)
_WORTH = 0.9
"""An option is reported only if its cost is below this share of the cost found."""
_COST = "loss"
_LOSSES = ("loss", "loss-geometric")


def _in_words(named: Option) -> str:
    """Spell a parameter for pages, whose readers may use any door: ``algorithm mondrian``."""
    return named.name if named.value is None else f"{named.name} {named.value}"


@dataclass(frozen=True)
class Advice:
    """An option that would have cost less, with its cost and the cost that was found."""

    parameter: str
    setting: str
    cost: str
    value: float
    instead: float
    counted: str = "rows"
    dropped: tuple[str, ...] = ()
    """Parameters that were given and that the advised algorithm does not take."""

    def option(self, spelling: Spelling = _in_words) -> str:
        """Return the parameter to set, as one door spells it."""
        without = " and ".join(spelling(Option(name, None, "")) for name in self.dropped)
        chosen = spelling(Option(self.parameter, self.setting, ""))
        return f"{chosen} without {without}" if without else chosen

    def sentence(self, spelling: Spelling = _in_words) -> str:
        """Return the advice as one line, with the option to set as one door spells it."""
        subject = self.setting
        if self.parameter == "suppress":
            subject = f"suppressing {self.setting.replace('%', ' %')} of {self.counted}"
        figures = f"{_figure(self.value)} instead of {_figure(self.instead)}"
        effect = "lose" if self.cost in _LOSSES else f"bring {self.cost} to"
        return f"{subject} would {effect} {figures}: {self.option(spelling)}"

    def json(self, spelling: Spelling = _in_words) -> dict[str, Any]:
        """Return the advice as JSON."""
        return {
            "option": self.option(spelling),
            "cost": self.cost,
            "value": self.value,
            "instead": self.instead,
            "words": self.sentence(spelling),
        }


def advise(
    problem: Problem,
    outcome: Outcome,
    weights: Mapping[str, float] | None,
    watch: SearchProgress,
    options: Collection[str] = (),
) -> list[Advice]:
    """Try other options on the same counts, and return those that cost less.

    `watch` has timed the search. `options` names the options that its user gave: an algorithm that
    does not take one is advised without it. All trials together take no longer than the search did
    and a moment more, and no longer than its limit.
    """
    start_seconds = time.monotonic()
    most = min(_LONGEST, start_seconds - watch.started + _HEAD_START)
    # Advice may take as long as the search did, and 1.5 s more, so that short searches get some.
    until = start_seconds + (most if watch.seconds_left is None else min(most, watch.seconds_left))
    advice: list[Advice] = []
    best: dict[str, float] = {}
    cost = outcome.minimised or _COST
    instead = _cost_of(outcome, cost)
    for parameter, setting, dropped, search in _tries(
        problem, outcome.algorithm, cost, weights, options
    ):
        seconds_left = until - time.monotonic()
        if seconds_left <= 0:
            break
        try:
            tried = search(seconds_left)
        except SfumatoError:
            continue  # the option does not fit this table, or the time was too short
        if tried.ended == "interrupted":
            break
        value = _cost_of(tried, cost)
        if value < _WORTH * best.get(parameter, instead):
            counted = "rows" if problem.people is None else "people"
            advice.append(Advice(parameter, setting, cost, value, instead, counted, dropped))
            best[parameter] = value
    return advice


def too_large(problem: Problem) -> bool:
    """Return whether the table is too large to be searched again."""
    return max(len(view.base.counts) for view in problem.views) > _MOST_COMBINATIONS


def _tries(
    problem: Problem,
    algorithm: str,
    cost: str,
    weights: Mapping[str, float] | None,
    options: Collection[str],
) -> Iterator[tuple[str, str, tuple[str, ...], Callable[[float], Outcome]]]:
    """Yield parameters to try: name, setting, options to leave out, and a timed search."""

    def searching(name: str, asked: Problem) -> Callable[[float], Outcome]:
        chosen = cost if "cost" in SEARCHES[name].takes else None
        return lambda seconds: run(asked, name, cost=chosen, weights=weights, limit_seconds=seconds)

    needed = (
        {"population"}
        if any(criterion.compares_population for criterion in problem.criteria)
        else set()
    )
    for name in _ALGORITHMS:
        if name != algorithm and needed <= SEARCHES[name].takes:
            dropped = tuple(option for option in options if option not in SEARCHES[name].takes)
            yield "algorithm", name, dropped, searching(name, problem)
    if "suppress" not in SEARCHES[algorithm].takes:
        return
    counted = problem.rows if problem.people is None else problem.people.count
    for percent in _SHARES:
        allowed = int(Fraction(percent, 100) * counted)
        if allowed > problem.allowed:
            asked = replace(problem, allowed=allowed)
            yield "suppress", f"{percent}%", (), searching(algorithm, asked)


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def _cost_of(outcome: Outcome, cost: str) -> float:
    return outcome.cost[cost.replace("-", "_")]


PAGE = "compare.html"
_LADDERS = {"k": (50, 20, 10, 5, 3, 2), "l": (8, 5, 4, 3, 2)}


@dataclass(frozen=True)
class Ladder:
    """The decided releases by name, and a remark for each rung that no release reaches."""

    decided: Mapping[str, Anonymized]
    remarks: tuple[str, ...]


def explore(asked: CriteriaRequest, decide: Callable[[CriteriaRequest], Anonymized]) -> Ladder:
    """Decide on a release for each rung; raise only if no rung can be reached."""
    name = "l" if asked.k is None and asked.l is not None else "k"
    requested = getattr(asked, name)
    rungs = sorted({*_LADDERS[name], *([] if requested is None else [requested])}, reverse=True)
    decided, remarks, refused = {}, [], None
    for rung in rungs:
        try:
            decided[f"{name}{rung}"] = decide(replace(asked, **{name: rung}))
        except RefusedError as error:
            refused = error
            remarks.append(f"{name} = {rung} is not among the candidates: {in_fields(error)}")
    if not decided and refused is not None:
        raise refused
    return Ladder(decided, tuple(remarks))


def write_ladder(ladder: Ladder, folder: Path, ending: str, *, overwrite: bool) -> dict[str, Path]:
    """Write each release with its side-car into a folder, two tables into one inside it."""
    folder.mkdir(exist_ok=True)
    paths = {}
    for name, anonymized in ladder.decided.items():
        paths[name] = folder / (name if anonymized.values is not None else f"{name}{ending}")
        anonymized.write(Output(paths[name]), overwrite=overwrite)
    return paths


@contextmanager
def made_folder(folder: Path) -> Iterator[None]:
    """Make a folder, and remove it again if the block raises."""
    created = not folder.exists()
    folder.mkdir(exist_ok=True)
    try:
        yield
    except BaseException:
        if created:
            folder.rmdir()
        raise


def check_folder(folder: Path, *, overwrite: bool) -> None:
    """Refuse a folder that cannot hold candidates, before any work is done."""
    if folder.exists() and not folder.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write candidates into '{folder}': it is a file. With "
            f"{option('explore', True)} OUT is a folder; choose another name.",
        )
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise OutputError(
            "output_exists",
            f"The folder '{folder}' is not empty. Choose another name, or give "
            f"{option('overwrite', True)}.",
        )
    if not folder.absolute().parent.is_dir():
        raise OutputError(
            "output_unwritable",
            f"Cannot write '{folder}': there is no directory '{folder.parent}'. Create it first.",
        )
