"""Private methods: queries, publications, synthetic tables, models and programs, for every door.

A method is declared as a request: its fields, its cost and its purpose. A family with kinds has a
request for each kind, with the options of that kind alone. The doors make from a request: a command
(`cli/private_methods.py`), an HTTP route that plans it, one that answers it or submits it as a job,
and the body that a client sends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import fields as option_fields
from fractions import Fraction
from functools import cache, partial
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin, get_type_hints

import msgspec
from msgspec import Meta

from sfumato import arguments
from sfumato.errors import ParameterError
from sfumato.exact_numbers import Number, exact
from sfumato.methods.learn.catalogue import KINDS as MODELS
from sfumato.methods.programs.catalogue import HOW, LANGUAGES, RANGES
from sfumato.methods.programs.outputs import MOST_OUTPUTS, read_outputs
from sfumato.methods.publish.catalogue import KINDS as PUBLICATIONS
from sfumato.methods.synth.methods import FORMS, METHOD_WORDS
from sfumato.operations.field import Field
from sfumato.operations.fields import (
    FIELD_TYPES,
    MOST_NAMES,
    NAMES_SCHEMA,
    NOT_GIVEN,
    NUMBER_SCHEMA,
    CommaList,
    FieldType,
    Held,
    Name,
    OptionValue,
    Request,
    Shares,
    Word,
    arg,
    fields,
    given,
    read,
    to_json,
)
from sfumato.operations.jobs import JobRecord
from sfumato.operations.operation import OPERATIONS, OWNERS, Context, Operation, Permission, Result
from sfumato.operations.releases import ANSWER
from sfumato.operations.table import METHOD_COMMANDS
from sfumato.text import dumps_in_parts
from sfumato.vault.families import FAMILIES
from sfumato.vault.tokens import scope_of

if TYPE_CHECKING:
    from sfumato.methods.kinds import Kind
    from sfumato.methods.method import Plan
    from sfumato.vault.families import Family
    from sfumato.vault.private import Questions

LONGEST_SQL = 64 * 1024
"""The largest number of characters of a query."""
_COST, _CHILD = "Cost", "A child table"


class Ranges(Held):
    """Ranges of column values: a list of [low, high] per column for each query, or a file."""

    __slots__ = ()


class ColumnSets(Held):
    """Sets of columns: a list of lists, or a file with one set in each line."""

    __slots__ = ()


class Outputs(Held):
    """The ranges of the numbers that a program returns."""

    __slots__ = ()


def _read_ranges(value: object, name: str) -> Any:
    if isinstance(value, str | Path):
        return arguments.path(value, name)
    ranges = arguments.plain(value, name)
    is_well_formed = isinstance(ranges, list) and all(
        isinstance(query, list)
        and all(isinstance(ends, list) and len(ends) == 2 and _are_ends(ends) for ends in query)
        for query in ranges
    )
    if not is_well_formed:
        raise ParameterError(
            "request_malformed",
            f"{name} must be a list of queries, each a list of [low, high], one per column.",
            parameter=name,
        )
    return ranges


def _are_ends(ends: list[Any]) -> bool:
    return all(isinstance(end, bool | int | float | str) for end in ends)


def _read_sets(value: object, name: str) -> Any:
    if isinstance(value, str | Path):
        return arguments.path(value, name)
    if not isinstance(value, list | tuple):
        raise ParameterError(
            "parameter_type_wrong", f"{name} must be a list of lists of columns.", parameter=name
        )
    return [list(arguments.names(columns, name)) for columns in value]


def _read_outputs(value: object, name: str) -> Any:
    _ = name
    if isinstance(value, str):  # JSON text of a command or a form; planning parses it
        return value
    return [output.to_record() for output in read_outputs(value)]


_END: dict[str, Any] = {
    "anyOf": [{"type": "boolean"}, {"type": "number"}, {"type": "string", "maxLength": 400}]
}
_OUTPUT = {
    "type": "object",
    "properties": {
        "low": NUMBER_SCHEMA,
        "high": NUMBER_SCHEMA,
        "name": {"type": "string", "minLength": 1, "maxLength": 256},
        "share": NUMBER_SCHEMA,
    },
    "required": ["low", "high"],
    "additionalProperties": False,
}
FIELD_TYPES |= {
    Ranges: FieldType(
        "FILE",
        {
            "type": "array",
            "items": {
                "type": "array",
                "items": {"type": "array", "items": _END, "minItems": 2, "maxItems": 2},
            },
        },
        _read_ranges,
        names_file=True,
    ),
    ColumnSets: FieldType(
        "FILE",
        {
            "type": "array",
            "items": {"type": "array", "items": NAMES_SCHEMA["anyOf"][0]},
            "maxItems": MOST_NAMES,
        },
        _read_sets,
        names_file=True,
    ),
    Outputs: FieldType(
        "JSON",
        {"type": "array", "items": _OUTPUT, "minItems": 1, "maxItems": MOST_OUTPUTS},
        _read_outputs,
    ),
}


class MethodRequest(Request, kw_only=True):
    """The fields of every private method: its cost, its purpose, and the expected plan."""

    epsilon: Annotated[
        Fraction,
        arg(
            "The epsilon to spend; by default a tenth of the budget.",
            metavar="EPSILON",
            topic=_COST,
        ),
    ] = NOT_GIVEN
    purpose: Annotated[
        Name,
        arg(
            "The purpose of the request, for data sets that ask for consent.",
            metavar="WHAT",
            topic="Who asks",
        ),
    ] = NOT_GIVEN
    plan: Annotated[
        Annotated[str, Meta(min_length=1, max_length=64)],
        arg("The plan that explaining the same request returned: another plan is refused."),
    ] = NOT_GIVEN


class PricedRequest(MethodRequest, kw_only=True):
    """A request that may cost an epsilon or a rho, and a delta."""

    rho: Annotated[
        Fraction,
        arg(
            "The rho to spend (zero-concentrated privacy) instead of epsilon.",
            metavar="RHO",
            topic=_COST,
        ),
    ] = NOT_GIVEN
    delta: Annotated[
        Fraction,
        arg(
            "The delta to spend; allows Gaussian noise where that is more accurate.",
            metavar="DELTA",
            topic=_COST,
        ),
    ] = NOT_GIVEN


_Dataset = Annotated[Name, arg("The data set.", metavar="NAME", positional=True)]


class Query(PricedRequest, kw_only=True):
    """Answer a query."""

    asked: Annotated[
        Annotated[str, Meta(min_length=1, max_length=LONGEST_SQL)],
        arg("The query: one SELECT statement.", metavar="SQL", positional=True),
    ] = msgspec.field(name="sql")
    weights: Annotated[
        Shares, arg('How to divide the cost among the output columns, such as {"n": 2}.')
    ] = NOT_GIVEN
    delta: Annotated[
        Fraction,
        arg(
            "The delta to spend: needed for groups that the schema does not declare.",
            metavar="DELTA",
            topic=_COST,
        ),
    ] = NOT_GIVEN


class Publish(PricedRequest, kw_only=True):
    """Publish statistics of a data set."""

    kind: Annotated[
        Word,
        arg(
            "The statistic to publish: one of the kinds below.",
            metavar="KIND",
            positional=True,
            words={name: kind.summary for name, kind in PUBLICATIONS.items()},
        ),
    ]
    dataset: _Dataset
    columns: Annotated[
        CommaList, arg("The columns to publish. Kinds for graphs, paths and itemsets take none.")
    ] = NOT_GIVEN
    workload: Annotated[
        Ranges,
        arg("A table of the ranges that matter, with columns A_low and A_high for column A."),
    ] = NOT_GIVEN
    postprocess: Annotated[
        CommaList,
        arg("What to do to the noisy counts: nonnegative, integer, total.", metavar="STEPS"),
    ] = NOT_GIVEN


class Watch(PricedRequest, kw_only=True):
    """List the ranges with more rows than a threshold."""

    dataset: _Dataset
    columns: Annotated[CommaList, arg("The columns that the ranges are over.")]
    workload: Annotated[
        Ranges, arg("A table of the ranges, with columns A_low and A_high for column A.")
    ]
    threshold: Annotated[int, arg("A range is a hit if it has more rows than this.", metavar="T")]
    at_most: Annotated[int, arg("Stop after this many hits; by default 1.", metavar="C")] = (
        NOT_GIVEN
    )


class Synthesize(PricedRequest, kw_only=True):
    """Generate a synthetic table that resembles a data set."""

    dataset: _Dataset
    method: Annotated[
        Name,
        arg(
            "How to choose what to measure: one of the methods above. Default: auto.",
            metavar="METHOD",
            words=METHOD_WORDS,
        ),
    ] = NOT_GIVEN
    rows: Annotated[
        int,
        arg("The number of rows to draw; by default an estimate of the number in the data set."),
    ] = NOT_GIVEN
    columns: Annotated[CommaList, arg("The columns to generate; by default all.")] = NOT_GIVEN
    quantiles: Annotated[
        CommaList,
        arg(
            "Columns to bin at private quantiles instead of equal widths; uses a part of the "
            "budget."
        ),
    ] = NOT_GIVEN
    weekdays: Annotated[
        CommaList, arg("Date columns whose day of the week to preserve; each is measured too.")
    ] = NOT_GIVEN
    target: Annotated[
        Name,
        arg(
            "A column that models will predict: its pairs with other columns are preserved best.",
            metavar="COLUMN",
        ),
    ] = NOT_GIVEN
    workload: Annotated[
        ColumnSets,
        arg("A file of the column sets that matter, one in each line, such as age,sex."),
    ] = NOT_GIVEN
    form: Annotated[
        Name,
        arg(
            "The form to generate: table, graph, paths or baskets; by default that of the schema.",
            metavar="FORM",
            flag="as",
        ),
    ] = NOT_GIVEN
    nodes: Annotated[int, arg("For a graph: the number of nodes, which must be public.")] = (
        NOT_GIVEN
    )
    people: Annotated[Name, arg("For a graph: the data set with the attributes of the nodes.")] = (
        NOT_GIVEN
    )
    child: Annotated[
        Name,
        arg(
            "A data set with several rows for each person, to generate together with this one.",
            topic=_CHILD,
        ),
    ] = NOT_GIVEN
    key: Annotated[
        Name,
        arg(
            "The column in both data sets that links child rows to their parent.",
            metavar="COLUMN",
            topic=_CHILD,
        ),
    ] = NOT_GIVEN


class Learn(PricedRequest, kw_only=True):
    """Train a model on a data set."""

    kind: Annotated[
        Word,
        arg(
            "The model to train: one of the kinds below.",
            metavar="KIND",
            positional=True,
            words={name: kind.summary for name, kind in MODELS.items()},
        ),
    ]
    dataset: _Dataset
    features: Annotated[CommaList, arg("The columns to learn from.")] = NOT_GIVEN
    target: Annotated[
        Name, arg("The column to predict, if the model has one.", metavar="COLUMN")
    ] = NOT_GIVEN


class Run(MethodRequest, kw_only=True):
    """Run a program on blocks of rows."""

    program: Annotated[
        str,
        arg(
            "A .py or .star file with a function that takes the rows of one block.",
            metavar="PROGRAM",
            positional=True,
        ),
    ]
    dataset: _Dataset
    output: Annotated[
        Outputs,
        arg(
            'The range of each number in JSON: [{"low": 0, "high": 100}]; also a name, a share of '
            "the cost."
        ),
    ]
    function: Annotated[
        Name,
        arg(
            "The function to call: it takes the rows of one block and returns numbers.",
            metavar="F",
        ),
    ] = NOT_GIVEN
    language: Annotated[
        Word,
        arg(
            "The language of the program; by default that of its file extension.",
            metavar="LANGUAGE",
            words=LANGUAGES,
        ),
    ] = NOT_GIVEN
    blocks: Annotated[
        int,
        arg(
            "The number of blocks; by default chosen from the declared number of rows, or 100.",
        ),
    ] = NOT_GIVEN
    people: Annotated[
        int,
        arg("The public number of people, from which the number of blocks is chosen."),
    ] = NOT_GIVEN
    repeats: Annotated[
        int, arg("How many blocks each person is in; more do not add noise. Default: 1.")
    ] = NOT_GIVEN
    aggregate: Annotated[
        Word,
        arg(
            "How to aggregate the outputs of all blocks: one of those above. Default: mean.",
            metavar="AGGREGATE",
            words=HOW,
        ),
    ] = NOT_GIVEN
    ranges: Annotated[
        Word,
        arg(
            "How to find the range of the outputs: one of those above. Default: tight.",
            metavar="RANGE",
            words=RANGES,
        ),
    ] = NOT_GIVEN
    helper: Annotated[
        Name,
        arg("The function that returns the ranges, where they are its own.", metavar="F"),
    ] = NOT_GIVEN
    columns: Annotated[
        CommaList,
        arg("The columns to pass to the program; by default all except identifiers."),
    ] = NOT_GIVEN
    seconds: Annotated[
        Fraction, arg("The time limit of one block in seconds. Default: 1.", metavar="S")
    ] = NOT_GIVEN


class Percentage(Held):
    """A share that may be written as a percentage; planning reads it."""

    __slots__ = ()


FIELD_TYPES[Percentage] = FieldType(
    "FRACTION",
    NUMBER_SCHEMA,
    lambda value, name: value if isinstance(value, str) else str(exact(value, name)),
)


class Anonymize(Request, kw_only=True):
    """Anonymize a data set, so that nobody stands out in it; a job, for the owner."""

    dataset: _Dataset
    k: Annotated[int, arg("The least number of rows in each class.")] = NOT_GIVEN
    l: Annotated[int, arg("The least number of sensitive values in each class.")] = (  # noqa: E741
        NOT_GIVEN
    )
    diversity: Annotated[
        Name, arg("How to count values for l: distinct, entropy, recursive, folk.")
    ] = NOT_GIVEN
    c: Annotated[Fraction, arg("The c of recursive (c,l)-diversity.")] = NOT_GIVEN
    t: Annotated[
        Fraction, arg("The largest distance of a class's values from those of the table.")
    ] = NOT_GIVEN
    distance: Annotated[Name, arg("How t measures distance: equal, ordered, hierarchy.")] = (
        NOT_GIVEN
    )
    delta_disclosure: Annotated[Fraction, arg("The largest |ln p/q| of any sensitive value.")] = (
        NOT_GIVEN
    )
    beta: Annotated[
        Fraction, arg("The largest relative gain in probability of any sensitive value.")
    ] = NOT_GIVEN
    sensitive: Annotated[CommaList, arg("The sensitive columns to protect; by default all.")] = (
        NOT_GIVEN
    )
    algorithm: Annotated[Name, arg("The search algorithm.")] = NOT_GIVEN
    cost: Annotated[Name, arg("The loss to minimise.")] = NOT_GIVEN
    suppress: Annotated[
        Percentage, arg("The share of rows that may be suppressed, such as 2% or 0.02.")
    ] = NOT_GIVEN
    suppressed: Annotated[
        Name, arg("Whether suppressed rows are dropped (drop) or blank (star).")
    ] = NOT_GIVEN
    refine: Annotated[bool, arg("Whether to search suppressed rows again.")] = NOT_GIVEN
    weights: Annotated[dict[str, float], arg("The weight of each column in the loss.")] = NOT_GIVEN
    limit_seconds: Annotated[
        Fraction, arg("Stop after so many seconds and use the best result so far.")
    ] = NOT_GIVEN
    by: Annotated[
        Annotated[str, Meta(max_length=10_000)],
        arg("The name of the publisher, for the reports."),
    ] = NOT_GIVEN
    attacks: Annotated[bool, arg("Whether to attack the release before it is stored.")] = NOT_GIVEN
    require: Annotated[CommaList, arg("What attacks may reach at most, such as link<0.05.")] = (
        NOT_GIVEN
    )
    publish_findings: Annotated[bool, arg("Whether the release states what attacks found.")] = (
        NOT_GIVEN
    )
    purpose: Annotated[
        Name, arg("The purpose of the request, for data sets that ask for consent.")
    ] = NOT_GIVEN


OPTIONS = "Options of"
"""The beginning of the help heading above the options of a kind."""
_APART = ("dataset", "purpose", "plan")
"""Fields that planning does not take as arguments: they choose the data set, the purpose and the
expected plan. A job stores them apart from its arguments."""


def _option_type(kind: Any) -> tuple[Any, dict[str, str]]:
    """The field type for an option of a kind, and its allowed words."""
    types = [part for part in get_args(kind) or (kind,) if part is not NoneType]
    if get_origin(kind) is Literal:
        return Word, dict.fromkeys(get_args(kind), "")
    # msgspec checks these; other types go to the method as they are.
    if types == [int] or types == [str]:
        return types[0], {}
    if len(types) == 1 and get_origin(types[0]) is Literal:
        return Word, dict.fromkeys(get_args(types[0]), "")
    if set(types) == set(get_args(Number)):
        return Fraction, {}
    return OptionValue, {}


def _options_of(name: str, kind: Kind) -> dict[str, Any]:
    """The options of a kind as annotated types of fields, by name."""
    # Catalogues import these names for type checkers only.
    names = {"Number": Number, "Sequence": Sequence, "Mapping": Mapping, "Names": Any}
    types = get_type_hints(kind.options, localns=names)
    declared = {}
    for option in option_fields(kind.options):
        plain, words = _option_type(types[option.name])
        help_line = kind.option_lines[option.name]
        about = arg(help_line, words=words, topic=f"{OPTIONS} {name}")
        declared[option.name] = Annotated[plain, about]
    return declared


def _subclass(base: type[MethodRequest], name: str, options: Mapping[str, Any]) -> Any:
    """Make a request type with more fields; all but the kind may be left out."""
    added = [
        (option, kind) if option == "kind" else (option, kind, NOT_GIVEN)
        for option, kind in options.items()
    ]
    # The name of the schema in OpenAPI, such as PublishAdaptiveGrid.
    title = base.__name__ + name.title().replace("-", "")
    return msgspec.defstruct(
        title, added, bases=(base,), kw_only=True, namespace={"__doc__": base.__doc__}
    )


_FORM_OPTIONS: dict[str, Any] = {}
for _name, _kind in FORMS.items():
    # Options of several forms are one field; options of `Synthesize` itself keep their field.
    _FORM_OPTIONS |= {
        option: declared
        for option, declared in _options_of(_name, _kind).items()
        if option not in Synthesize.__struct_fields__
    }
SynthesizeForm = _subclass(Synthesize, "form", _FORM_OPTIONS)


@dataclass(frozen=True, kw_only=True)
class Method:
    """A private method as the doors offer it."""

    family: Family
    command: str
    request: type[MethodRequest]
    example: Mapping[str, Any]
    """A body that can be sent to a vault with a data set `people`."""
    command_examples: tuple[str, ...]
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    kind_field: str = "kind"
    title: str = ""
    """The noun of its kinds, such as publication; empty if no kind must be named."""
    explain: tuple[str, ...] = ("--explain",)
    """The flags with which the command only plans."""
    writes: Literal["never", "may", "must"] = "never"
    """Whether the command writes files."""
    out_help: str = "A .csv, .parquet or .xlsx; several tables go into a folder."
    saves_model: bool = False
    """Whether the command can also save the model of a release."""
    explores: bool = False
    """Whether the command can make candidates at several costs, for the owner to compare."""

    @property
    def help(self) -> str:
        """One sentence about the method."""
        return METHOD_COMMANDS[self.command].help

    def kind_requests(self) -> Mapping[str, type[MethodRequest]]:
        """The request type of each kind."""
        return _kind_requests(self.command)

    def options_of(self, kind: str) -> dict[str, Field]:
        """The options that only this kind has, by name."""
        request = self.kind_requests()[kind] if self.title else self.request
        known = {option.name for option in option_fields(self.kinds[kind].options)}
        return {
            field.name: field
            for field in fields(request)
            if field.name in known and field.topic.startswith(OPTIONS)
        }

    def read(self, values: Mapping[str, Any], *, text: bool = False) -> MethodRequest:
        """Check values by name and make a request of them."""
        request: type[Any] = OPERATIONS[self.request].request_for(values)
        return read(request, values, text=text)  # type: ignore[no-any-return]


@cache
def _kind_requests(command: str) -> Mapping[str, type[MethodRequest]]:
    """Make the request type of each kind once: a type per call would be a new type each time."""
    method = METHODS[command]
    requests = {}
    for name, kind in method.kinds.items():
        words = arg("The kind.", metavar="KIND", positional=True, words={name: kind.summary})
        options = {"kind": Annotated[Word, words], **_options_of(name, kind)}
        requests[name] = _subclass(method.request, name, options)
    return requests


def values_of(request: MethodRequest) -> dict[str, Any]:
    """The arguments that planning takes, by name."""
    return {name: value for name, value in given(request).items() if name not in _APART}


class Forecast(Result):
    """What a private method would cost, its expected error, and what would be left."""

    data: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """The forecast of the method, with the digest of its plan."""
        return self.data

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """What every forecast has; each method adds its own."""
        properties = {
            "plan": {"type": "string"},
            "remaining_after": {"type": "object"},
            "balance_after": {"type": "string"},
        }
        return {"type": "object", "properties": properties, "required": list(properties)}


class QueryAnswer(Result):
    """The answer to a query, already as bytes.

    Its text takes more memory than the answer, so it is made inside the memory reservation of
    `answer`.
    """

    content: bytes
    form: str

    def body(self) -> object:
        """The JSON text."""
        return self.content

    def in_form(self, media: str) -> bytes | None:
        """The whole answer, for clients that `Accept` it."""
        return self.content if media == self.form else None

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The schema of an answer in JSON."""
        return {
            "type": "object",
            "properties": {
                "columns": {"type": "array", "items": {"type": "string"}},
                "rows": {"type": "array", "items": {"type": "array"}},
                "error": {"type": ["object", "null"]},
                "cost": {
                    "type": "object",
                    "properties": {"charged": {"type": "boolean"}},
                    "additionalProperties": True,
                },
                "remaining": {"type": "object"},
                "receipt": {"type": "string"},
                "notes": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["columns", "rows", "error", "cost", "remaining", "receipt"],
        }


def plan(method: Method, context: Context, request: MethodRequest) -> tuple[Questions, Plan]:
    """Plan a request from public facts alone.

    Raises
    ------
    ParameterError
        `plan_changed` if the request names another plan: declarations have changed since the caller
        saw its cost.
    """
    from sfumato.vault.session import check_plan

    about: dict[str, Any] = {"principal": context.principal, "purpose": request.purpose}
    if method.family.of_dataset:
        # `private` refuses data sets that this principal may not query.
        questions = context.vault.private(request.dataset, **about)  # type: ignore[attr-defined]
    else:
        questions = context.vault.questions(**about)
    prepared = questions.prepare(method.family, **values_of(request))
    # The caller agreed to the cost and the error of one plan, so no other may be charged.
    check_plan(prepared, request.plan)
    return questions, prepared


def explain(method: Method, context: Context, request: MethodRequest) -> Forecast:
    """Plan a request and forecast its cost and the budget left; nothing is charged."""
    from sfumato.vault.session import plan_digest

    questions, prepared = plan(method, context, request)
    remaining, balance = questions.left_after(prepared)
    forecast = {**prepared.explain().to_json(), "plan": plan_digest(prepared)}
    return Forecast({**forecast, "remaining_after": remaining, "balance_after": balance})


def answer(method: Method, context: Context, request: MethodRequest) -> QueryAnswer:
    """Answer a query, charged to the budgets of its data sets."""
    from sfumato.vault.answer import packed, paid_under

    vault = context.vault
    questions, prepared = plan(method, context, request)
    # The text is made inside the reservation of memory too, because it is larger than the answer.
    with vault.gatekeeper.room(prepared, vault.asker(context.principal, None, ())):
        answered = questions.answer(method.family, prepared, request_id=context.request_id)
        if not context.wants(ANSWER):
            return QueryAnswer(dumps_in_parts(answered.to_json()).encode(), "")
        # Whether this request id paid, perhaps by an attempt whose response got lost.
        paid = paid_under(answered, vault.ledger, context.principal, context.request_id)
        return QueryAnswer(packed(answered, paid=paid), ANSWER)


def submit(name: str, context: Context, request: Any) -> JobRecord:
    """Submit a request as a job; it is charged when it begins."""
    # JSON form: a job is stored in the ledger and may run in another process.
    arguments_of_job = {key: value for key, value in to_json(request).items() if key not in _APART}
    job = context.vault.jobs.submit(
        name,
        request.dataset,
        principal=context.principal,
        purpose=request.purpose,
        request_id=context.request_id,
        plan=getattr(request, "plan", None),  # `Anonymize` has none: it costs no budget
        **arguments_of_job,
    )
    return JobRecord.from_json(job.to_json())


_PEOPLE = {"dataset": "people", "epsilon": "0.1"}
_RANGES_EXAMPLE = {"columns": ["age"], "workload": [[[0, 17]], [[65, 120]]], "threshold": 100}
_PROGRAM = (
    "def adults(rows):\n    return len([age for age in rows['age'] if age != None and age >= 18])"
)

METHODS: dict[str, Method] = {
    method.command: method
    for method in (
        Method(
            family=FAMILIES["query"],
            command="query",
            request=Query,
            example={"sql": "SELECT sex, COUNT(*) AS n FROM people GROUP BY sex", "epsilon": "0.1"},
            command_examples=(
                'sfumato query "SELECT COUNT(*) FROM people" --epsilon 0.1 --vault clinic',
                'sfumato query "SELECT sex, AVG(age) FROM people GROUP BY sex" --vault clinic',
            ),
        ),
        Method(
            family=FAMILIES["publish"],
            command="publish",
            request=Publish,
            example={**_PEOPLE, "kind": "histogram", "columns": ["sex"]},
            command_examples=(
                "sfumato publish histogram people --columns sex --vault clinic -o sexes.csv",
                "sfumato publish tree people --columns age --vault clinic -o ages.csv --explain",
                (
                    "sfumato publish marginals people --columns sex,smoker,age --vault clinic "
                    "-o all.csv"
                ),
            ),
            kinds=PUBLICATIONS,
            title="publication",
            writes="must",
            out_help=(
                "A .csv, .parquet or .xlsx, boxes also .geojson; several tables go into a folder."
            ),
        ),
        Method(
            family=FAMILIES["above"],
            command="watch",
            request=Watch,
            example={**_PEOPLE, **_RANGES_EXAMPLE},
            command_examples=(
                (
                    "sfumato watch people --columns age --workload ranges.csv --threshold 9 "
                    "--vault clinic"
                ),
            ),
            writes="may",
        ),
        Method(
            family=FAMILIES["synthesize"],
            command="synthesize",
            request=SynthesizeForm,
            example={**_PEOPLE, "method": "mst"},
            command_examples=(
                "sfumato synthesize people --epsilon 1 --vault clinic -o twin.csv",
                "sfumato synthesize people --epsilon 1 --vault clinic -o twin.csv --plan",
                "sfumato synthesize people --epsilon 0.4 --explore --yes --vault clinic -o twins",
                (
                    "sfumato synthesize people --target smoker --vault clinic -o t.parquet "
                    "--model m.arrow"
                ),
            ),
            kinds=FORMS,
            kind_field="form",
            writes="must",
            out_help="A .csv, .tsv, .parquet or .xlsx, as its name ends.",
            explain=("--plan", "--explain"),
            saves_model=True,
            explores=True,
        ),
        Method(
            family=FAMILIES["learn"],
            command="learn",
            request=Learn,
            example={**_PEOPLE, "kind": "naive-bayes", "features": ["age"], "target": "sex"},
            command_examples=(
                (
                    "sfumato learn naive-bayes people --features age --target sex --epsilon 0.1 "
                    "--vault clinic -o m.json"
                ),
                "sfumato learn kmeans people --features age,smoker --vault clinic --explain",
            ),
            kinds=MODELS,
            title="model",
            writes="may",
            out_help="A .json file, which 'sfumato predict' reads.",
        ),
        Method(
            family=FAMILIES["run"],
            command="run",
            request=Run,
            example={
                **_PEOPLE,
                "program": _PROGRAM,
                "language": "starlark",
                "function": "adults",
                "output": [{"low": 0, "high": 1000}],
                "blocks": 10,
            },
            command_examples=(
                (
                    "sfumato run ages.py people --function mean_age --vault clinic --seconds 0.2 "
                    '--blocks 4 --output \'[{"low": 0, "high": 110}]\' --dry-run'
                ),
            ),
            explain=("--dry-run", "--explain"),
        ),
    )
}
METHOD_OF = {method.family.name: method for method in METHODS.values()}
"""The methods by the names of their families."""


def _operations() -> tuple[Operation, ...]:
    """The operations of HTTP: a plan of each method, the query, and a job of each other method."""
    common: dict[str, Any] = {"doors": ("http",), "whole_vault": True}
    plans, answers = [], []
    for method in METHODS.values():
        family, command = method.family, method.command
        is_query = not family.of_dataset
        # Only a kind that must be named decides the body; the form of a synthesis may be left out.
        kinds = {} if method.title == "" else {"kind_requests": method.kind_requests}
        declared: dict[str, Any] = {
            **common,
            **kinds,
            "request": method.request,
            "examples": (method.example,),
        }
        # Planning a program runs it on synthetic rows, so it needs the permission to send code.
        if family.shape == "code":
            planning = Permission("submit-code", shape="code")
        else:
            # Whoever may plan sees costs and errors, and no answer.
            planning = Permission("plan", shape="explain")
        plans.append(
            Operation(
                name=f"explain {command}",
                run=partial(explain, method),
                description=f"Plan without charge. {method.help}",
                allowed=planning,
                path="/explain" if is_query else f"/explain/{command}",
                refusals=(402, 403),
                **declared,
            )
        )
        charged: dict[str, Any] = {
            **declared,
            "name": command,
            "allowed": Permission(scope_of(family.shape), shape=family.shape),
            "path": f"/{command}",
            "keyed": True,
            "refusals": (402, 403, 409),
        }
        if is_query:
            operation = Operation(
                run=partial(answer, method), description=method.help, forms=(ANSWER,), **charged
            )
        else:
            about = f"{method.help} It is a job: look at it under jobs, find it under releases."
            operation = Operation(
                run=partial(submit, family.name), description=about, status=202, **charged
            )
        answers.append(operation)
    anonymize = Operation(
        name="anonymize",
        request=Anonymize,
        run=partial(submit, "anonymize"),
        allowed=OWNERS,
        examples=({"dataset": "people", "k": 5},),
        path="/anonymize",
        status=202,
        keyed=True,
        refusals=(403, 409),
        **common,
    )
    return (*plans, *answers, anonymize)


METHOD_OPERATIONS = _operations()
# `OPERATIONS` has one operation for each request; a plan shares its request with the answer.
OPERATIONS |= {
    operation.request: operation
    for operation in METHOD_OPERATIONS
    if not operation.name.startswith("explain ")
}
"""The operations of private methods that HTTP offers."""
