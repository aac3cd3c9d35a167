"""The pages of a survey: the form, the confirmation, and the live result.

The form has a script that may load only its own two files; other pages have none. A plain form
sends answers that were randomized with coins or dice. Decision `surveys`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfumato.methods.local.frequency_oracles import KAry
from sfumato.report.bars import Bar, draw_bars
from sfumato.report.blocks import KeyFigures, Note, PageTable, Paragraph
from sfumato.report.page import fill, render
from sfumato.report.palette import picture_style, sheet
from sfumato.text import dumps, share

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sfumato.methods.local.mechanism import Oracle
    from sfumato.report.blocks import Block


SCRIPTS = ("mechanism.mjs", "survey.mjs")
RENEWED_SECONDS = 15
"""How often the browser loads the live result again."""
FOOTER = (
    "Made with Sfumato. Only randomized reports are stored: no names, no addresses, no times, and "
    "not the order of arrival."
)


@dataclass(frozen=True)
class ShownRound:
    """A round as texts for its pages; `base` is the address above all of them."""

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
    """The most reports that the round accepts from one address in an hour."""


@dataclass(frozen=True)
class ThrownByHand:
    """Instructions to randomize with coins or dice, and the epsilon of such an answer."""

    first: str
    honest: str
    second: str
    epsilon: str
    ticket: str


@dataclass(frozen=True)
class ShownResult:
    """The estimate: name, share, low and high end of each choice, and rejected items by reason."""

    bars: Sequence[tuple[str, float, float, float]]
    n: int
    rejected: Mapping[str, int]
    closed: str | None


_POINTS = """
With a probability of {chance} the report is your answer; otherwise it is another choice, drawn at
random. Nobody can tell which of the two it was, not even we.

Exactly: {shown.mechanism} at epsilon {shown.epsilon}. Whatever anyone knew about you before, one
report changes the odds between any two answers by a factor of at most e to the epsilon.

The report carries a one-time ticket, drawn at random when this page was loaded, so that it counts
once. No name, no address and no time is stored.

The round accepts at most {shown.reports_per_hour:,} reports an hour from one address, so that
nobody can flood it. The server counts addresses in memory and never writes them to disk.

Answer once: every report reveals a little more about you. This device remembers which reports it
sent, and never your answer.

The round is open from {shown.opens} to {shown.closes}. Its id, {shown.id}, fixes the question, the
choices and the promise. An honest invitation states the id.
"""
_VALUE = "Share of those who answered"
_NOTE = (
    "The error bars cover the randomness of the reports only. They do not show how well those who "
    "answered represent others."
)
_ADDRESS_LIMIT = (
    "The round accepts at most {reports:,} reports an hour from one address. It cannot tell people "
    "apart: one person with several addresses can answer from each."
)
_BELOW_ZERO = (
    "A share below 0 is the estimate of a rare choice. Estimates are right on average because no "
    "value is cut off."
)


def style() -> str:
    """The style sheet of the page where people answer."""
    return picture_style() + sheet("page.css") + sheet("survey.css")


def survey_page(shown: ShownRound, data: Mapping[str, object], hand: ThrownByHand | None) -> str:
    """The page where people answer; `data` are the facts that its script needs."""
    if shown.state == "not_open":
        lead = f"This round opens {shown.opens}. Please come back then."
    elif shown.state == "closed":
        lead = "This round is closed. Thank you to everyone who answered."
    else:
        lead = (
            "Answer truthfully: your answer never leaves this device. It is randomized here first, "
            "and only the randomized report is sent."
        )
    points = _POINTS.format(shown=shown, chance=share(shown.truth_chance)).strip().split("\n\n")
    return fill(
        "survey.html",
        base=shown.base,
        question=shown.question,
        choices=list(shown.choices),
        open=shown.state == "open",
        data=dumps(dict(data), ensure_ascii=False),
        lead=lead,
        points=points,
        first_throw=hand and hand.first,
        honest=hand and hand.honest,
        second_throw=hand and hand.second,
        hand_epsilon=hand and hand.epsilon,
        hand_ticket=hand and hand.ticket,
        footer=f"{FOOTER} Round {shown.id}.",
    )


def thanks_page(shown: ShownRound, refused: str | None) -> str:
    """The page after an answer by hand: counted, or refused for a reason."""
    if refused is None:
        title, text = "Thank you", "Your randomized answer was counted."
    else:
        title, text = (
            "Not counted",
            f"The answer was not counted: it came {refused}. Load the page again.",
        )
    return _fill_results(shown, title, shown.question, [Paragraph(text)], renewed=None)


def results_page(shown: ShownRound, result: ShownResult, *, renewed_every: int) -> str:
    """The public estimate so far; it changes after every `renewed_every` reports."""
    blocks = _result_blocks(shown.question, shown.epsilon, result)
    if result.closed is not None:
        lead = f"The final result{_closing(result)}."
        return _fill_results(shown, shown.question, lead, blocks, renewed=None)
    lead = (
        "The result so far, estimated from randomized reports. It is updated after every "
        f"{renewed_every} reports, so that nobody can see a single report arrive."
    )
    blocks.append(Note(_ADDRESS_LIMIT.format(reports=shown.reports_per_hour)))
    return _fill_results(shown, shown.question, lead, blocks, renewed=RENEWED_SECONDS)


def result_report(question: str, epsilon: str, result: ShownResult) -> str:
    """The estimate as a self-contained page."""
    blocks = _result_blocks(question, epsilon, result)
    lead = f"Estimated from randomized reports{_closing(result)}."
    return render(question, blocks, lead=lead, footer=FOOTER)


def _result_blocks(question: str, epsilon: str, result: ShownResult) -> list[Block]:
    rejected = sum(result.rejected.values())
    figures = [
        (f"{result.n:,}", "reports counted"),
        (f"{rejected:,}", "rejected"),
        (epsilon, "epsilon of a report"),
    ]
    blocks: list[Block] = [KeyFigures(figures)]
    if result.bars:
        bars = [Bar(*bar) for bar in result.bars]
        blocks.append(
            draw_bars(
                bars, label=question, category="Choice", value=_VALUE, percent=True, note=_NOTE
            )
        )
        if min(bar.value for bar in bars) < 0:
            blocks.append(Note(_BELOW_ZERO))
    else:
        blocks.append(Paragraph("There are no reports yet."))
    if result.rejected:
        rows = sorted(result.rejected.items())
        blocks.append(PageTable("Rejected, by reason", ("Reason", "Items"), rows, folded=True))
    return blocks


def _fill_results(
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


def _closing(result: ShownResult) -> str:
    return "" if result.closed is None else f": the round closed {result.closed}"


def script_facts(mechanism: Oracle) -> dict[str, object]:
    """The integer weights of a mechanism, by the names that `mechanism.mjs` reads."""
    truth, lie = _require_k_ary(mechanism).weights
    # As texts: JavaScript's numbers lose digits of integers above 2^53.
    return {"truth": str(truth), "lie": str(lie)}


def chance_of_truth(mechanism: Oracle) -> float:
    """The probability that a report is the true answer."""
    return float(_require_k_ary(mechanism).p)


def _require_k_ary(mechanism: Oracle) -> KAry:
    assert isinstance(mechanism, KAry), "a round has a mechanism of the page's script"
    return mechanism
