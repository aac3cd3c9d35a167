"""Surveys: rounds of one question, whose answers are randomized on the device of each person."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfumato.operations.fields import Request, Tables, arg
from sfumato.operations.operation import (
    OWNERS,
    Context,
    Result,
    TextReport,
    operation,
    print_table,
)
from sfumato.text import share

if TYPE_CHECKING:
    from sfumato.methods.local.collection import SurveyEstimate

_OUTPUT = "Output"
Round = Annotated[Path, arg("The file of the round (TOML).", positional=True)]
Page = Annotated[
    Path | None, arg("Write a page with the result.", metavar="FILE.html", topic=_OUTPUT)
]
Overwrite = Annotated[bool, arg("Replace an existing output file.", topic=_OUTPUT)]


class NewSurvey(Request):
    """Declare a round, and sign it: its question, choices, epsilon and times."""

    file: Round
    question: Annotated[str, arg("The question.", metavar="QUESTION")]
    choices: Annotated[str, arg("The possible answers.", metavar="A,B,...")]
    epsilon: Annotated[
        str, arg("The epsilon of one report, such as 1 or log(3).", metavar="EPSILON")
    ]
    mechanism: Annotated[
        str, arg("How to randomize: auto (the default), warner (two choices) or k-ary.")
    ] = "auto"
    opens: Annotated[
        str | None, arg("The time of the first report; by default now.", metavar="TIME")
    ] = None
    closes: Annotated[
        str | None, arg("The time of the last report; by default 30 days later.", metavar="TIME")
    ] = None


class CollectReports(Request):
    """Add survey reports from files.

    A file is added as a whole or not at all. A report that is in several files, or was sent before,
    is counted once, so you may give a file twice.
    """

    file: Round
    reports: Annotated[
        Tables, arg("Files of randomized reports.", metavar="REPORTS...", positional=True)
    ]


class EstimateSurvey(Request):
    """Estimate the share of each choice, with its error, from the reports so far."""

    file: Round
    report: Page = None
    overwrite: Overwrite = False


class CloseSurvey(Request):
    """Close a round for good, and estimate the share of each choice."""

    file: Round
    report: Page = None
    overwrite: Overwrite = False


class EstimateReport(Result):
    """Estimated shares of the choices."""

    estimate: Any

    def to_json(self) -> dict[str, Any]:
        """The estimate for programs."""
        data: dict[str, Any] = self.estimate.to_json()
        return data

    def show(self) -> None:
        """Print the share of each choice with its error, and the number of rejected reports."""
        from rich.console import Console

        from sfumato.report.terminal import printable

        estimate: SurveyEstimate = self.estimate
        console = Console(highlight=False)
        console.print(printable(estimate.round.question), style="bold")
        rows = [
            (printable(choice), share(middle), f"± {share(middle - low)}")
            for choice, middle, low, _ in (estimate.bars() if estimate.n else ())
        ]
        titles = ("Choice", "Share", "95 % interval")
        print_table(titles, rows, "There is no report yet.", numbers=titles[1:])
        state = f"closed {estimate.closed}" if estimate.closed else "open"
        rejected = ", ".join(
            f"{count:,} {reason}" for reason, count in sorted(estimate.rejected.items())
        )
        console.print(
            f"{estimate.n:,} reports, {estimate.round.mechanism} at epsilon "
            f"{estimate.round.epsilon}; {state}." + (f" Rejected: {rejected}." if rejected else ""),
            markup=False,
        )


_NEW = {
    "file": "smoking.toml",
    "question": "Do you smoke?",
    "choices": "yes,no",
    "epsilon": "1",
}


@operation("survey new", allowed=OWNERS, local=True, examples=[_NEW])
def declare_survey(context: Context, request: NewSurvey) -> TextReport:  # noqa: ARG001
    """Write the round, and the key that signs it if there is none."""
    from sfumato.methods.local.paper_coins import MOST_CHOICES
    from sfumato.methods.local.rounds import key_file, new_round

    file = request.file
    new = new_round(
        file,
        request.question,
        tuple(choice.strip() for choice in request.choices.split(",")),
        epsilon=request.epsilon,
        mechanism=request.mechanism,
        opens=request.opens,
        closes=request.closes,
    )
    data = {
        "round": new.id,
        "mechanism": new.mechanism,
        "epsilon": float(new.epsilon),
        "by_hand": None if new.by_hand is None else str(new.by_hand_epsilon),
        "file": str(file),
        "key": str(key_file(file)),
    }
    lines = [
        f"Round {new.id}: {new.mechanism} at epsilon {new.epsilon}, {len(new.choices)} choices.",
        f"Signed with '{key_file(file)}': keep it secret.",
    ]
    if new.by_hand is None:
        lines.append(
            f"Nobody can answer without a script: coins and dice do for 2 to {MOST_CHOICES} "
            f"choices and not too small an epsilon, and this round has {len(new.choices)} at "
            f"epsilon {new.epsilon}."
        )
    lines.append(f"Next: 'sfumato survey serve {file}'.")
    return TextReport(data=data, text="\n".join(lines))


@operation(
    "survey collect",
    allowed=OWNERS,
    local=True,
    examples=[
        {"file": "mood.toml", "reports": ["monday.jsonl"]},
        {"file": "mood.toml", "reports": ["monday.jsonl", "tuesday.jsonl"]},
    ],
)
def collect_reports(context: Context, request: CollectReports) -> TextReport:  # noqa: ARG001
    """Check and store the reports, file by file."""
    from sfumato.methods.local.collection import Collection

    with closing(Collection(request.file)) as collection:
        deliveries = [(path, collection.collect_file(Path(path))) for path in request.reports]
    accepted = sum(delivery.accepted for _, delivery in deliveries)
    lines, rejected = [f"{accepted:,} reports accepted."], dict[str, int]()
    for path, delivery in deliveries:
        for reason, count in sorted(delivery.reasons.items()):
            rejected[reason] = rejected.get(reason, 0) + count
            # Only the first line of each reason, because a file may have millions of bad lines.
            first = next(position for position, why in delivery.rejected if why == reason)
            # The first line of a file is its header.
            lines.append(f"{path}: {count:,} rejected as {reason}, first in line {first + 2}.")
    data = {"accepted": accepted, "rejected": sum(rejected.values())}
    return TextReport(data={**data, "rejected_by_reason": rejected}, text="\n".join(lines))


@operation("survey estimate", allowed=OWNERS, local=True, examples=[{"file": "smoking.toml"}])
def estimate_survey(context: Context, request: EstimateSurvey) -> EstimateReport:  # noqa: ARG001
    """Add up the reports of the round."""
    return _estimate(request, close=False)


@operation("survey close", allowed=OWNERS, local=True, examples=[{"file": "smoking.toml"}])
def close_survey(context: Context, request: CloseSurvey) -> EstimateReport:  # noqa: ARG001
    """Accept no more reports, and add up those of the round."""
    return _estimate(request, close=True)


def _estimate(request: EstimateSurvey | CloseSurvey, *, close: bool) -> EstimateReport:
    from sfumato.filesystem import check_target
    from sfumato.methods.local.collection import Collection
    from sfumato.methods.local.rounds import key_file, store_file

    file, page = request.file, request.report
    if page is not None:
        # The page must not replace the round, its key or its reports, even with `overwrite`.
        in_use = (file, key_file(file), store_file(file))
        check_target(page, overwrite=request.overwrite, kept=in_use)
    with closing(Collection(file)) as collection:
        estimate = collection.close_round() if close else collection.estimate()
    if page is not None:
        estimate.save_report(page, overwrite=request.overwrite)
    return EstimateReport(estimate=estimate)
