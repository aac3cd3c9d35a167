"""The pages of a survey: where people answer, what they are told then, and the live result.

The page where people answer has a script, which may load nothing but its own two files; all other
pages have none. Answers that coins and dice made are sent by a plain form. Decision 0344.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.report.bars import Bar, draw_bars
from sfumato.report.blocks import KeyFigures, Note, PageTable, Paragraph
from sfumato.report.page import fill, render
from sfumato.report.palette import picture_style, sheet
from sfumato.text import dumps, share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.report.blocks import Block

SCRIPTS = ("mechanism.mjs", "survey.mjs")
RENEWED_SECONDS = 15
"""How often the live result is loaded again."""
FOOTER = (
    "Made with Sfumato. Only randomized reports are kept: no names, no addresses, no times, and "
    "not in the order in which they came."
)


@dataclass(frozen=True)
class ShownRound:
    """A round as its pages tell it. `base` is the address below which they all lie."""

    base: str
    id: str
    question: str
    choices: Sequence[str]
    mechanism: str
    epsilon: str
    state: str
    """'open', 'not_open' or 'closed'."""
    opens: str
    closes: str
    truth_chance: float
    reports_per_hour: int
    """So many reports the round takes from one address in an hour."""


@dataclass(frozen=True)
class ThrownByHand:
    """What to throw, and what an answer made so reveals at most."""

    first: str
    honest: str
    second: str
    epsilon: str
    ticket: str


@dataclass(frozen=True)
class ShownResult:
    """The estimate: name, share, low and high of each choice, and what was rejected, in words."""

    bars: Sequence[tuple[str, float, float, float]]
    n: int
    rejected: Mapping[str, int]
    closed: str | None


def style() -> str:
    """The style sheet of the page where people answer."""
    return picture_style() + sheet("page.css") + sheet("survey.css")


def script(name: str) -> str:
    """One of the scripts, as people read it."""
    return sheet(name)


def survey_page(shown: ShownRound, told: Mapping[str, object], hand: ThrownByHand | None) -> str:
    """The page where people answer; `told` is what the script needs to know of the round."""
    return fill(
        "survey.html",
        base=shown.base,
        question=shown.question,
        choices=list(shown.choices),
        open=shown.state == "open",
        data=dumps(dict(told), ensure_ascii=False),
        lead=_lead(shown),
        points=_points(shown),
        first_throw=hand and hand.first,
        honest=hand and hand.honest,
        second_throw=hand and hand.second,
        hand_epsilon=hand and hand.epsilon,
        hand_ticket=hand and hand.ticket,
        footer=f"{FOOTER} Round {shown.id}.",
    )


def _lead(shown: ShownRound) -> str:
    if shown.state == "not_open":
        return f"This round opens {shown.opens}. Come back then."
    if shown.state == "closed":
        return "This round is closed. Thank you to all who answered."
    return (
        "Answer truthfully: your answer never leaves this device. Chance changes it here first, "
        "and only what chance made of it is sent."
    )


def _points(shown: ShownRound) -> list[str]:
    chance = share(shown.truth_chance)
    return _POINTS.format(shown=shown, chance=chance).strip().split("\n\n")


_POINTS = """
With a chance of {chance} the report is your answer, else it is another choice, drawn at random.
Nobody can tell which of the two it was, not even we.

Exactly: {shown.mechanism} at epsilon {shown.epsilon}. Whatever anyone knew of you before, one
report shifts the odds of any two answers by a factor of at most e to the epsilon.

Beside it goes a one-time ticket, drawn at random when this page was loaded, so that a report counts
once. No name, no address and no time is kept.

So that nobody floods the round, it takes at most {shown.reports_per_hour:,} reports an hour from
one address. Addresses are counted in the server's memory and written nowhere.

Answer once: every report tells a little more of you. This device remembers what it has sent, and
never what you answered.

The round is open from {shown.opens} to {shown.closes}. Its id, {shown.id}, pins the question, the
choices and the promise: an honest invitation names it.
"""


def thanks_page(shown: ShownRound, refused: str | None) -> str:
    """What those are told who sent what their coins said."""
    if refused is None:
        title, text = "Thank you", "What your coins or dice and you made together was counted."
    else:
        title, text = (
            "Not counted",
            f"This was not counted: it came {refused}. Load the page again.",
        )
    return _told(shown, title, shown.question, [Paragraph(text)], renewed=None)


def results_page(shown: ShownRound, result: ShownResult, *, renewed_every: int) -> str:
    """The estimate so far, as everybody may see it."""
    renewed = None if result.closed else RENEWED_SECONDS
    blocks = _result_blocks(shown.question, shown.epsilon, result)
    lead = _result_lead(result, renewed_every)
    if result.closed is None:
        blocks.append(Note(_LIMIT.format(reports=shown.reports_per_hour)))
    return _told(shown, shown.question, lead, blocks, renewed=renewed)


def result_report(question: str, epsilon: str, result: ShownResult) -> str:
    """The estimate as a page that needs nothing but itself."""
    blocks = _result_blocks(question, epsilon, result)
    lead = f"Estimated from randomized reports{_closing(result)}."
    return render(question, blocks, lead=lead, footer=FOOTER)


def _result_blocks(question: str, epsilon: str, result: ShownResult) -> list[Block]:
    rejected = sum(result.rejected.values())
    figures = [(f"{result.n:,}", "reports counted"), (f"{rejected:,}", "rejected")]
    blocks: list[Block] = [KeyFigures([*figures, (epsilon, "epsilon of a report")])]
    if result.bars:
        drawn = [Bar(*bar_values) for bar_values in result.bars]
        blocks.append(
            draw_bars(drawn, label=question, what="Choice", value=_VALUE, percent=True, note=_NOTE)
        )
        if min(bar.value for bar in drawn) < 0:
            blocks.append(Note(_BELOW))
    else:
        blocks.append(Paragraph("There is no report yet."))
    if result.rejected:
        rows = sorted(result.rejected.items())
        blocks.append(PageTable("Rejected, by reason", ("Reason", "Items"), rows, folded=True))
    return blocks


_VALUE = "Share of those who answered"
_NOTE = (
    "The error bars tell of the randomness of reports alone; how well those who answered stand for "
    "others is not in them."
)
_LIMIT = (
    "The round takes at most {reports:,} reports an hour from one address. People are not told "
    "apart: one person may have several addresses, and answer from each."
)
_BELOW = (
    "A share below 0 is an estimate of a rare choice: estimates are right on average, and nothing "
    "was cut off."
)


def _told(
    shown: ShownRound, title: str, lead: str, blocks: Sequence[Block], *, renewed: int | None
) -> str:
    return fill(
        "results.html",
        base=shown.base,
        title=title,
        lead=lead,
        blocks=blocks,
        renewed=renewed,
        footer=f"{FOOTER} Round {shown.id}.",
    )


def _result_lead(result: ShownResult, renewed_every: int) -> str:
    if result.closed is not None:
        return f"The final result{_closing(result)}."
    return (
        "The result so far, estimated from randomized reports. It is renewed when "
        f"{renewed_every} more reports have come, so that nobody sees one of them arrive."
    )


def _closing(result: ShownResult) -> str:
    return "" if result.closed is None else f": the round was closed {result.closed}"
