"""Pan-private counters: files that count distinct visitors and may be stolen."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from sfumato.errors import EndedEarly, ParameterError, option
from sfumato.operations.fields import Request, Tables, arg
from sfumato.operations.operation import OWNERS, Context, TextReport, operation
from sfumato.text import share

if TYPE_CHECKING:
    from sfumato.methods.stream.pan_file import PanRecord

Counter = Annotated[Path, arg("The file of the counter.", positional=True)]


class NewCounter(Request):
    """Make a counter for the people of a public list; nobody has come yet."""

    file: Counter
    people: Annotated[
        str, arg("The list of all people who may come. It counts as public.", metavar="TABLE")
    ]
    column: Annotated[str, arg("The column that names the person of a row.", metavar="COLUMN")]
    epsilon: Annotated[
        str, arg("The epsilon of one look at the file, at most 1.5936.", metavar="EPSILON")
    ]
    output_epsilon: Annotated[
        str | None,
        arg("The epsilon of all answers together; by default the same.", metavar="EPSILON"),
    ] = None
    reads: Annotated[int, arg("The number of answers; by default 1.")] = 1
    at_least: Annotated[
        int, arg("Count people who came so often; by default once.", metavar="VISITS")
    ] = 1
    sample: Annotated[
        int | None, arg("The number of people that are tracked; by default up to 100,000.")
    ] = None


class UpdateCounter(Request):
    """Add the visits of one or more tables, which you may delete afterwards."""

    file: Counter
    events: Annotated[
        Tables, arg("Tables with one row for each visit.", metavar="EVENTS...", positional=True)
    ] = Tables()
    column: Annotated[
        str | None,
        arg("The column of persons, if it has another name than in the list.", metavar="COLUMN"),
    ] = None
    resume: Annotated[bool, arg("Finish an interrupted update; give the same tables again.")] = (
        False
    )


class ReadCounter(Request):
    """Estimate the share of people who came; the same answer until more visits are added."""

    file: Counter


_NEW = {"file": "seen.pan", "people": "members.csv", "column": "member", "epsilon": "1", "reads": 5}


@operation("pan new", allowed=OWNERS, local=True, examples=[_NEW])
def make_counter(context: Context, request: NewCounter) -> TextReport:  # noqa: ARG001
    """Write the file."""
    from sfumato.methods.stream import pan_file

    record = pan_file.new(
        request.file,
        request.people,
        request.column,
        epsilon=request.epsilon,
        output_epsilon=request.output_epsilon,
        reads=request.reads,
        at_least=request.at_least,
        sample=request.sample,
    )
    method = record.method
    total = float(method.epsilon + method.output_epsilon)
    return TextReport(
        data=record.to_json(),
        text=f"A counter of {method.people:,} people, of whom {method.size:,} are tracked; an "
        f"answer will be off by about {share(method.variance**0.5)}.\n"
        f"One look at the file reveals epsilon {float(method.epsilon):g}, {method.reads:,} answers "
        f"reveal epsilon {float(method.output_epsilon):g}: {total:g} together.\n"
        f"Next: 'sfumato pan update {request.file} VISITS'. Keep no copies: two copies of "
        "different days together reveal who came.",
    )


@operation(
    "pan update",
    allowed=OWNERS,
    local=True,
    examples=[{"file": "seen.pan", "events": ["monday.csv"]}],
)
def update_counter(context: Context, request: UpdateCounter) -> TextReport:  # noqa: ARG001
    """Draw new bits for everybody who came."""
    from sfumato.methods.stream import pan_file

    if not request.events and not request.resume:
        raise ParameterError(
            "parameter_missing", "Name at least one table of visits.", parameter="events"
        )
    try:
        record = pan_file.update_all(
            request.file, request.events, request.column, resume=request.resume
        )
    except KeyboardInterrupt:
        _report_progress(pan_file.load(request.file))
        raise
    return TextReport(
        data=record.to_json(), text=f"Updated the counter: {record.updates:,} updates so far."
    )


def _report_progress(record: PanRecord) -> None:
    """Raise how far an interrupted update got, if it had begun to change the file."""
    if record.position:
        raise EndedEarly(
            f"Interrupted: the visits of {record.position:,} of {record.method.size:,} places were "
            f"added. Give the same tables again with {option('resume', True)} to add the rest."
        )


@operation("pan read", allowed=OWNERS, local=True, examples=[{"file": "seen.pan"}])
def read_counter(context: Context, request: ReadCounter) -> TextReport:  # noqa: ARG001
    """Return the last answer again, or a new one if visits were added since.

    The same answer costs nothing; a second noise on the same visits would.
    """
    from sfumato.methods.stream import pan_file

    record, answer = pan_file.read(request.file)
    method, reads_left = record.method, record.method.reads - len(record.answers)
    times = "" if method.at_least == 1 else f" at least {method.at_least} times"
    answers = "1 more answer is" if reads_left == 1 else f"{reads_left:,} more answers are"
    return TextReport(
        data={**record.to_json(), **answer},
        text=f"{share(answer['share'])} ± {share(answer['sd'])} of {method.people:,} people came"
        f"{times}: about {answer['count']:,.0f} ± {answer['count_sd']:,.0f}.\n"
        f"{answers} paid for.",
    )
