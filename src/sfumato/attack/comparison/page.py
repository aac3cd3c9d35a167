"""Candidates for a release as a page for the owner: privacy in shades, and every figure beneath."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.attack.comparison.result import PROMISE
from sfumato.attack.finding import percent
from sfumato.attack.page import TITLE, failed_blocks, tried_blocks
from sfumato.data.schema.names import count
from sfumato.release.page_parts import GUARANTEED, LOOKED_AT, OPEN, UTILITY
from sfumato.report.blocks import Folded, Glossary, Heading, Listing, Note, PageTable, Paragraph
from sfumato.report.page import render
from sfumato.report.points import Interval, NamedPoint, draw_tradeoff
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from sfumato.attack.comparison.result import Candidate, Comparison
    from sfumato.attack.finding import Finding
    from sfumato.report.blocks import Block, Cell
    from sfumato.report.picture import Picture

_OWNER = (
    "For the owner: computed from the original, without any noise. What stands on this page tells "
    "of real rows; it is no part of what any candidate promises, and must not travel with one. "
    "Choosing a candidate by it is a choice that the original has a say in."
)
_LABEL = "Privacy against use: to the right nobody is found out, at the top all counts are kept"
_ACROSS = "Privacy: out of reach of the best attack"
_UP = "Use: counts kept as in the original"
_NOTE = (
    "Each point is a candidate. Thin lines hold the figure in 95 of 100 cases. The line joins "
    "those that no other beats; a grey point is no better in either than another."
)
_UNKNOWN = "–"
_ATTACKS = (
    "How often each attack is right, its ends, and how often a guess would be. Of people who are "
    "not in the data it is told where such a list was given. An attack that did not run says "
    "nothing: silence is not safety."
)
_LIMITS = (
    "Only a promise speaks of attacks that nobody tried; figures of attacks speak of these alone.",
    "Candidates are alternatives: of two that are released, an attacker has both.",
    "Differences within the ends of two points are chance, whichever of them a line joins.",
)
_TERMS = (
    (
        "Found out beyond a guess",
        (
            "How often an attacker is right, less how often somebody is who guesses, or who "
            "attacks people that are not in the data; 0 % learns nothing of anybody, 100 % "
            "everything of all. The attack is told that surely gets most. Those that guess much of "
            "anybody right, because the world is like that, count only where a list of other "
            "people was given."
        ),
    ),
    (
        "Counts kept",
        (
            "All candidates are asked how many rows have each value of a column, and each pair of "
            "values of two columns. A label that stands for several values counts as evenly spread "
            "over them. 100 % less the share of rows that are counted in another place than in the "
            "original, on average; the ends are those of the mean over all such tables."
        ),
    ),
    ("Off in a range", "By how much of all rows the count in a range of two columns is off."),
    ("k", "So many rows look alike in the columns by which people are found, at least."),
    ("l", "So many different sensitive values have rows that look alike, at least."),
    ("t", "So far the sensitive values of rows that look alike are from those of all, at most."),
    ("epsilon", "How much one person may change what is released; the smaller, the more private."),
    ("Loss", "How much of the hierarchies labels cover: 0 is nothing lost, 1 everything."),
)


def page(found: Comparison) -> str:
    """The whole page, its parts called and ordered as those of any other."""
    return render(
        "Candidates for a release",
        [*comparison_blocks(found), Glossary(_TERMS)],
        lead="Privacy in shades: what attackers get of each candidate, and what it is good for.",
        footer=f"Made by Sfumato {__version__}. For the owner: computed from the original.",
    )


def comparison_blocks(found: Comparison) -> list[Block]:
    """What is told of candidates, for a page of its own or for a part of another."""
    drawn = picture(found)
    parts: dict[str, list[Block]] = {
        LOOKED_AT: [*([] if drawn is None else [drawn]), _listed(found)],
        GUARANTEED: [_promises(found)],
        OPEN: [Listing(_LIMITS)],
        UTILITY: [Paragraph(_about_use(found)), _use(found)],
        TITLE: [Paragraph(_ATTACKS), _attacks(found), *_joins(found), *_each(found)],
    }
    blocks: list[Block] = [Note(_OWNER, warning=True), Listing(said(found))]
    for heading, content in parts.items():
        blocks += [Heading(heading), *content]
    return blocks


def said(found: Comparison) -> list[str]:
    """What was found, in sentences."""
    best = found.frontier
    told = [_sentence(one) for one in found.candidates]
    placed = [one for one in found if one.exposure and one.utility]
    if len(best) == 1 < len(placed) == len(found):
        told.insert(0, f"{best[0].name} is at least as good as every other in both.")
    elif len(best) > 1:
        names = ", ".join(one.name for one in best)
        told.insert(
            0,
            f"No other candidate beats these, first those of which attacks get least: {names}. "
            "Which of them is right depends on how much may be learned of people, and by whom.",
        )
    beaten = [one for one in found.candidates if any(other.beats(one) for other in best)]
    told += [
        f"{one.name} need not be chosen: "
        f"{next(other.name for other in best if other.beats(one))} is no worse in either."
        for one in beaten
    ]
    return [*told, *map(_join_sentence, _joined(found)), *found.remarks]


def _joined(found: Comparison) -> list[tuple[Candidate, Finding]]:
    """What a join with the list is worth, of each candidate that was joined."""
    return [(one, one.joined) for one in found if one.joined is not None]


def _join_sentence(joined: tuple[Candidate, Finding]) -> str:
    of, figures = joined[0], joined[1].figures
    return (
        f"{of.name}, joined with the list: {figures['joined']:,} pairs of rows, of which "
        f"{percent(figures['precision'])} are true; {percent(1 - figures['recall'])} of true pairs "
        "are lost."
    )


def _joins(found: Comparison) -> list[Block]:
    headers = (
        *("Candidate", "Pairs joined", "True", "False", "Lost"),
        *("Count over the originals", "From", "To"),
    )
    rows = [
        (
            of.name,
            *(show(one.figures[name]) for name in ("joined", "true", "false", "lost", "count")),
            *map(show, one.figures["count_bounds"]),
        )
        for of, one in _joined(found)
    ]
    title = "What a join with the list is worth; it is not counted as risk"
    return [PageTable(title, headers, rows)] if rows else []


def _sentence(one: Candidate) -> str:
    exposure, utility = one.exposure, one.utility
    if exposure is None:
        risk = "no attack could be run on it, which does not say that it is safe"
    elif exposure.attack == PROMISE:
        risk = (
            "no attack could be run on it; its promise lets an attacker be right at most "
            f"{percent(exposure.risk)} beyond a guess"
        )
    else:
        risk = (
            f"the best attack ({exposure.attack}) is right {percent(exposure.risk)} beyond a guess "
            f"({percent(exposure.low)} to {percent(exposure.high)})"
        )
    use = "its counts are not known" if utility is None else f"{share(utility.kept)} of counts stay"
    return f"{one.name}: {risk}; {use}."


def picture(found: Comparison) -> Picture | None:
    """Privacy against use, a point for each candidate that has both."""
    best = {one.name for one in found.frontier}
    spots, rows = [], []
    for one in found.candidates:
        exposure, utility = one.exposure, one.utility
        if exposure is None or utility is None:
            continue
        hidden = Interval(1 - exposure.risk, 1 - exposure.high, 1 - exposure.low)
        kept = Interval(utility.kept, utility.low, utility.high)
        spots.append(NamedPoint(one.name, hidden, kept, one.name in best))
        rows.append((one.name, *map(_between, (hidden, kept)), _yes(one.name in best)))
    if not spots:
        return None
    headers = ("Candidate", "Privacy", "Counts kept", "No other beats it")
    lacking = [one.name for one in found.candidates if one.exposure is None]
    note = f"{_NOTE} Not drawn, as no attack ran: {', '.join(lacking)}." if lacking else _NOTE
    if any(one.exposure is not None and one.exposure.attack == PROMISE for one in found):
        note += " Where no attack ran, a point is as far to the left as its promise allows."
    return draw_tradeoff(
        spots,
        label=_LABEL,
        titles=(_ACROSS, _UP),
        table=PageTable(_LABEL, headers, rows),
        note=note,
    )


def _between(one: Interval) -> str:
    return f"{percent(one.value)} ({percent(one.low)} to {percent(one.high)})"


def _yes(told: bool) -> str:
    return "yes" if told else "no"


def _listed(found: Comparison) -> PageTable:
    headers = (
        *("Candidate", "What it is", "k", "l", "t", "epsilon"),
        *("Found out beyond a guess", "By", "Counts kept"),
    )
    rows = [
        (
            one.name,
            one.kind,
            *(_figure(number) for number in (one.k, one.l, one.t, one.epsilon)),
            _UNKNOWN if one.exposure is None else percent(one.exposure.risk),
            _UNKNOWN if one.exposure is None else one.exposure.attack,
            _UNKNOWN if one.utility is None else percent(one.utility.kept),
        )
        for one in found.candidates
    ]
    return PageTable(f"{count(len(rows), 'candidate')} for {found.rows:,} rows", headers, rows)


def _figure(number: float | None) -> Cell:
    return _UNKNOWN if number is None else show(number)


def _promises(found: Comparison) -> PageTable:
    rows = [
        (one.name, one.guarantee or "Nothing: it has no side-car that promises anything.")
        for one in found.candidates
    ]
    return PageTable("What each promises", ("Candidate", "Promise"), rows)


def _attacks(found: Comparison) -> PageTable:
    """A row for each attack that ran on any candidate, a column for each candidate."""
    names = dict.fromkeys(one.attack for found_of in found for one in found_of.findings)
    by_candidate = [{one.attack: one for one in of.findings} for of in found]
    rows = []
    for name in names:
        cells = []
        for findings in by_candidate:
            one = findings.get(name)
            if one is None:
                cells.append("did not run")
                continue
            success = one.success
            told = f"{percent(success.value)} ({percent(success.low)} to {percent(success.high)})"
            told += f", guess {percent(one.baseline.value)}"
            if one.control is not None:
                told += f", of others {percent(one.control.value)}"
            cells.append(told)
        rows.append((name, *cells))
    headers = ("Attack", *(one.name for one in found))
    return PageTable("Every attack, right and by a guess", headers, rows)


def _each(found: Comparison) -> list[Block]:
    """All that attacks found of each candidate, folded under its name."""
    blocks: list[Block] = []
    for one in found:
        more = [Listing(one.remarks)] if one.remarks else []
        told = [*more, *tried_blocks(one.findings), *failed_blocks(one.findings)]
        blocks.append(Folded(f"{one.name}: every attack, and what did not run", told))
    return blocks


def _about_use(found: Comparison) -> str:
    names = ", ".join(found.columns)
    return (
        "The same counts are asked of every candidate, whatever kind it is: by each column, and by "
        f"two columns together, of {names}. Where labels stand for several values they count as "
        "evenly spread."
    )


def _use(found: Comparison) -> PageTable:
    figures = dict.fromkeys(name for one in found for name in one.figures)
    headers = (
        *("Candidate", "Counts kept", "From", "To"),
        *("Off by a column", "Off by two columns", "Off in a range"),
        *(name.replace("_", " ").capitalize() for name in figures),
    )
    rows = []
    for one in found:
        utility = one.utility
        told: list[Cell] = [_UNKNOWN] * 6
        if utility is not None:
            kept = (utility.kept, utility.low, utility.high)
            shares = (*kept, utility.one_way, utility.two_way, utility.ranges)
            told = [_UNKNOWN if n is None else percent(n) for n in shares]
        rows.append((one.name, *told, *(_figure(one.figures.get(name)) for name in figures)))
    return PageTable("Every figure of use", headers, rows)
