"""The page that compares candidates for a release, for the owner: privacy against utility."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sfumato import __version__
from sfumato.attack.comparison.result import PROMISE
from sfumato.attack.finding import percent
from sfumato.attack.page import TITLE, failed_blocks, tried_blocks
from sfumato.data.schema.names import count
from sfumato.release.page_parts import EXAMINED, GUARANTEED, OPEN, UTILITY
from sfumato.report.blocks import Folded, Glossary, Heading, Listing, Note, PageTable, Paragraph
from sfumato.report.page import render
from sfumato.report.points import Interval, NamedPoint, draw_tradeoff
from sfumato.report.value_text import share, show

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attack.comparison.result import Candidate, Comparison
    from sfumato.attack.finding import Finding
    from sfumato.report.blocks import Block, Cell
    from sfumato.report.picture import Picture

_OWNER = (
    "For the owner only: computed from the original, without noise. This page describes real rows. "
    "No candidate promises what it says, so do not share it with a release. Note that choosing a "
    "candidate with this page makes the choice depend on the original."
)
_LABEL = "Privacy against utility: further right attackers learn less, further up counts are closer"
_X_TITLE = "Privacy: 100 % less what the best attack learns beyond a guess"
_Y_TITLE = "Utility: counts that stay as in the original"
_NOTE = (
    "Each point is a candidate; thin lines are 95 % confidence intervals. The line joins the "
    "best trade-offs: no other candidate is better in both. Grey points are no best trade-off."
)
_UNKNOWN = "–"
_ATTACKS = (
    "How often each attack is right, with its 95 % confidence interval, and how often a guess is. "
    "Rates for people who are not in the data are shown where a list of such people was given. An "
    "attack that did not run shows nothing: it does not mean safety."
)
_LIMITS = (
    "Only a guarantee covers attacks that nobody tried; measured attacks cover only themselves.",
    "Candidates are alternatives. If two are released, an attacker has both.",
    (
        "If the intervals of two points overlap, the difference may be chance, even where the line "
        "joins only one of them."
    ),
)
_TERMS = (
    (
        "Learned beyond a guess",
        (
            "How much more often the attacker is right than a guess, or than an attack on people "
            "who are not in the data, as a share of the cases in which the guess fails. 0 % means "
            "nothing was learned, 100 % everything about everyone. The table shows the attack that "
            "learns most. Attacks that infer facts which are true of most people count only where "
            "a list of other people was given."
        ),
    ),
    (
        "Counts kept",
        (
            "For each value of a column, and each pair of values of two columns, the rows are "
            "counted in every candidate. A label that covers several values counts evenly for all "
            "of them. The number is 100 % minus the total variation distance to the original, "
            "averaged over these tables; its interval is that of the mean."
        ),
    ),
    (
        "Error in a range",
        "The error of the count of rows in a range of two columns, as a share of all rows.",
    ),
    ("k", "At least this many rows have the same quasi-identifiers."),
    ("l", "Rows that look alike have at least this many different sensitive values."),
    ("t", "The sensitive values of rows that look alike differ at most this much from all rows."),
    ("epsilon", "How much one person may change the release. A smaller epsilon protects better."),
    ("Loss", "The share of the hierarchies that labels cover: 0 is nothing lost, 1 everything."),
)


def page(comparison: Comparison) -> str:
    """Return the whole page."""
    return render(
        "Candidates for a release",
        [*comparison_blocks(comparison), Glossary(_TERMS)],
        lead="What attackers learn from each candidate, and how useful it is.",
        footer=f"Made by Sfumato {__version__}. For the owner only: computed from the original.",
    )


def comparison_blocks(comparison: Comparison) -> list[Block]:
    """Return the blocks of the comparison, for its own page or for part of another."""
    drawn = picture(comparison)
    sections: dict[str, list[Block]] = {
        EXAMINED: [*([] if drawn is None else [drawn]), _overview(comparison)],
        GUARANTEED: [_guarantees(comparison)],
        OPEN: [Listing(_LIMITS)],
        UTILITY: [Paragraph(_utility_text(comparison)), _utility_table(comparison)],
        TITLE: [
            Paragraph(_ATTACKS),
            _attack_table(comparison),
            *_join_table(comparison),
            *_attacks_by_candidate(comparison),
        ],
    }
    blocks: list[Block] = [Note(_OWNER, warning=True), Listing(summary(comparison))]
    for heading, content in sections.items():
        blocks += [Heading(heading), *content]
    return blocks


def summary(comparison: Comparison) -> list[str]:
    """Return the results in sentences."""
    best = comparison.frontier
    sentences = [_candidate_sentence(candidate) for candidate in comparison.candidates]
    rated = [candidate for candidate in comparison if candidate.exposure and candidate.utility]
    if len(best) == 1 < len(rated) == len(comparison):
        sentences.insert(
            0,
            f"{best[0].name} is at least as good as every other candidate in both privacy and "
            "utility.",
        )
    elif len(best) > 1:
        names = ", ".join(candidate.name for candidate in best)
        sentences.insert(
            0,
            f"Best trade-offs (no other candidate is better in both privacy and utility): {names}. "
            "Attackers learn least from the first. The right choice depends on how much anyone may "
            "learn about people.",
        )
    for candidate in comparison.candidates:
        better = next((other for other in best if other.beats(candidate)), None)
        if better is not None:
            sentences.append(
                f"{candidate.name} is not worth choosing: {better.name} is at least as good in "
                "both privacy and utility."
            )
    sentences += [_join_sentence(candidate, join) for candidate, join in _joins(comparison)]
    return [*sentences, *comparison.remarks]


def _joins(comparison: Comparison) -> list[tuple[Candidate, Finding]]:
    """Return the candidates that were joined with the list, and the result of each join."""
    return [
        (candidate, candidate.joined) for candidate in comparison if candidate.joined is not None
    ]


def _join_sentence(candidate: Candidate, join: Finding) -> str:
    figures = join.figures
    return (
        f"{candidate.name} joined with the list gives {figures['joined']:,} pairs of rows. "
        f"{percent(figures['precision'])} of them are true, and "
        f"{percent(1 - figures['recall'])} of the true pairs are missing."
    )


def _join_table(comparison: Comparison) -> list[Block]:
    headers = (
        *("Candidate", "Pairs joined", "True", "False", "Missing"),
        *("Count over the originals", "From", "To"),
    )
    columns = ("joined", "true", "false", "lost", "count")
    rows = [
        (
            candidate.name,
            *(show(join.figures[name]) for name in columns),
            *map(show, join.figures["count_bounds"]),
        )
        for candidate, join in _joins(comparison)
    ]
    caption = "How good a join with the list is. This is not counted as risk."
    return [PageTable(caption, headers, rows)] if rows else []


def _candidate_sentence(candidate: Candidate) -> str:
    exposure, utility = candidate.exposure, candidate.utility
    if exposure is None:
        risk = "no attack could be run on it, which does not mean that it is safe"
    elif exposure.attack == PROMISE:
        risk = (
            "no attack could be run on it; its guarantee lets an attacker be right at most "
            f"{percent(exposure.risk)} more often than a guess"
        )
    elif not exposure.risk:
        risk = "no attack is right more often than a guess, beyond chance"
    else:
        risk = (
            f"the best attack ({exposure.attack}) is right {percent(exposure.risk)} more often "
            f"than a guess ({percent(exposure.low)} to {percent(exposure.high)})"
        )
    use = "its utility is not known" if utility is None else f"utility {share(utility.kept)}"
    return f"{candidate.name}: {risk}; {use}."


def picture(comparison: Comparison) -> Picture | None:
    """Draw privacy against utility, one point for each candidate; None if no candidate has both."""
    best = {candidate.name for candidate in comparison.frontier}
    points, rows = [], []
    for candidate in comparison.candidates:
        exposure, utility = candidate.exposure, candidate.utility
        if exposure is None or utility is None:
            continue
        privacy = Interval(1 - exposure.risk, 1 - exposure.high, 1 - exposure.low)
        kept = Interval(utility.kept, utility.low, utility.high)
        is_best = candidate.name in best
        points.append(NamedPoint(candidate.name, privacy, kept, is_best))
        intervals = (
            f"{percent(interval.value)} ({percent(interval.low)} to {percent(interval.high)})"
            for interval in (privacy, kept)
        )
        rows.append((candidate.name, *intervals, "yes" if is_best else "no"))
    if not points:
        return None
    note = _NOTE
    lacking = [candidate.name for candidate in comparison.candidates if candidate.exposure is None]
    if lacking:
        note += f" Not shown, because no attack ran: {', '.join(lacking)}."
    exposures = [candidate.exposure for candidate in comparison]
    if any(exposure is not None and exposure.attack == PROMISE for exposure in exposures):
        note += " Where no attack ran, the point shows the most that the guarantee allows."
    headers = ("Candidate", "Privacy", "Counts kept", "Best trade-off")
    table = PageTable(_LABEL, headers, rows)
    return draw_tradeoff(points, label=_LABEL, titles=(_X_TITLE, _Y_TITLE), table=table, note=note)


def _overview(comparison: Comparison) -> PageTable:
    headers = (
        *("Candidate", "What it is", "k", "l", "t", "epsilon"),
        *("Learned beyond a guess", "By", "Counts kept"),
    )
    rows = []
    for candidate in comparison.candidates:
        exposure, utility = candidate.exposure, candidate.utility
        numbers = (candidate.k, candidate.l, candidate.t, candidate.epsilon)
        rows.append(
            (
                candidate.name,
                candidate.kind,
                *map(_number_text, numbers),
                _UNKNOWN if exposure is None else percent(exposure.risk),
                _UNKNOWN if exposure is None else exposure.attack,
                _UNKNOWN if utility is None else percent(utility.kept),
            )
        )
    caption = f"{count(len(rows), 'candidate')} for {comparison.rows:,} rows"
    return PageTable(caption, headers, rows)


def _number_text(number: float | None) -> Cell:
    return _UNKNOWN if number is None else show(number)


def _guarantees(comparison: Comparison) -> PageTable:
    rows = [
        (candidate.name, candidate.guarantee or "Nothing: it has no side-car with a guarantee.")
        for candidate in comparison.candidates
    ]
    return PageTable("What each candidate guarantees", ("Candidate", "Guarantee"), rows)


def _attack_table(comparison: Comparison) -> PageTable:
    """Return a table with a row for each attack that ran, and a column for each candidate."""
    by_candidate = [
        {finding.attack: finding for finding in candidate.findings} for candidate in comparison
    ]
    attacks = dict.fromkeys(attack for findings in by_candidate for attack in findings)
    rows = [
        (attack, *(_success_text(findings.get(attack)) for findings in by_candidate))
        for attack in attacks
    ]
    headers = ("Attack", *(candidate.name for candidate in comparison))
    return PageTable("How often each attack is right, and a guess", headers, rows)


def _success_text(finding: Finding | None) -> str:
    if finding is None:
        return "did not run"
    rate = finding.success
    text = f"{percent(rate.value)} ({percent(rate.low)} to {percent(rate.high)})"
    text += f", guess {percent(finding.baseline.value)}"
    if finding.control is not None:
        text += f", people not in the data {percent(finding.control.value)}"
    return text


def _attacks_by_candidate(comparison: Comparison) -> Sequence[Block]:
    """List all attacks on each candidate, folded under its name."""
    return [
        Folded(
            f"{candidate.name}: every attack, and what did not run",
            [
                *([Listing(candidate.remarks)] if candidate.remarks else []),
                *tried_blocks(candidate.findings),
                *failed_blocks(candidate.findings),
            ],
        )
        for candidate in comparison
    ]


def _utility_text(comparison: Comparison) -> str:
    return (
        "The same rows are counted in every candidate: by each column, and by each pair, of "
        f"{', '.join(comparison.columns)}. A label that covers several values counts evenly for "
        "all of them."
    )


def _utility_table(comparison: Comparison) -> PageTable:
    names = dict.fromkeys(name for candidate in comparison for name in candidate.figures)
    headers = (
        *("Candidate", "Counts kept", "From", "To"),
        *("Error by a column", "Error by two columns", "Error in a range"),
        *(name.replace("_", " ").capitalize() for name in names),
    )
    rows = []
    for candidate in comparison:
        utility = candidate.utility
        cells: list[Cell] = [_UNKNOWN] * 6
        if utility is not None:
            kept = (utility.kept, utility.low, utility.high)
            shares = (*kept, utility.one_way, utility.two_way, utility.ranges)
            cells = [_UNKNOWN if number is None else percent(number) for number in shares]
        figures = (_number_text(candidate.figures.get(name)) for name in names)
        rows.append((candidate.name, *cells, *figures))
    return PageTable("All measures of utility", headers, rows)
