"""The families of private methods: what may be asked of each, said once for every door.

A family is a module and an entry of `FAMILIES`. By that it has a method of `Private` (of `Vault`
too, where a question itself names its data sets) and a command. Its module has

    prepare(facts, offer, **values) -> Plan         from public facts alone; what is charged and run
    spelled(facts, **values) -> dict                what is asked, without files of this machine
    result(answer, plan) -> Answer                  where an answer needs means to be read
    check_targets(plan, out, report, ...)           where it writes files

and is loaded when it is first asked; so this page stays light and tells what can be asked.
Decision `counts-only`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from sfumato.methods.learn.catalogue import KINDS as MODELS
from sfumato.methods.programs.catalogue import HOW, LANGUAGES, RANGES
from sfumato.methods.publish.catalogue import KINDS
from sfumato.methods.synth.methods import FORMS, METHOD_WORDS
from sfumato.vault.family import DELTA, EPSILON, RHO, Family, Field


def _listed(*families: Family) -> dict[str, Family]:
    return {family.name: family for family in families}


_WORKLOAD = Field(
    "workload",
    "A table of the ranges that matter, with columns A_low and A_high for column A.",
    "FILE",
    type=Path,
)
_COLUMNS = Field("columns", "The columns to publish.", "A,B", required=True)
_SOME = "The columns to publish. Kinds for graphs, paths and itemsets take none."

FAMILIES = _listed(
    Family(
        name="query",
        help="Answer an SQL query about the data sets of a vault, with noise and error bounds.",
        chapter="Vaults: budgeted answers",
        module="sfumato.vault.query_family",
        fields=(
            Field(
                "asked", "The query: one SELECT statement.", "SQL", required=True, positional=True
            ),
            Field("weights", "How to divide the cost among the output columns.", None),
        ),
        cost=(
            EPSILON,
            RHO,
            replace(
                DELTA,
                help="The delta to spend: needed for groups that the schema does not declare.",
            ),
        ),
        of_dataset=False,
        examples=(
            'sfumato query "SELECT COUNT(*) FROM people" --epsilon 0.1 --vault clinic',
            'sfumato query "SELECT sex, AVG(age) FROM people GROUP BY sex" --vault clinic',
        ),
    ),
    Family(
        name="publish",
        help="Publish statistics of a data set with differential privacy.",
        chapter="Publish statistics",
        module="sfumato.vault.publish_family",
        fields=(
            Field(
                "kind",
                "The statistic to publish: one of the kinds below.",
                "KIND",
                required=True,
                positional=True,
                choices={name: kind.summary for name, kind in KINDS.items()},
            ),
            replace(_COLUMNS, help=_SOME, required=False),
            _WORKLOAD,
            Field(
                "postprocess",
                "What to do to the noisy counts: nonnegative, integer, total.",
                "STEPS",
                default="",
            ),
        ),
        writes="must",
        out_help="A .csv, .parquet or .xlsx, boxes also .geojson; several tables go into a folder.",
        kinds=KINDS,
        examples=(
            "sfumato publish histogram people --columns sex --vault clinic -o sexes.csv",
            "sfumato publish tree people --columns age --vault clinic -o ages.csv --explain",
            "sfumato publish marginals people --columns sex,smoker,age --vault clinic -o all.csv",
        ),
    ),
    Family(
        name="above",
        command="watch",
        help=(
            "List the ranges with more rows than a threshold (sparse vector); only hits use "
            "up the cost."
        ),
        chapter="Publish statistics",
        module="sfumato.vault.publish_family",
        fields=(
            replace(_COLUMNS, help="The columns that the ranges are over."),
            replace(
                _WORKLOAD,
                help="A table of the ranges, with columns A_low and A_high for column A.",
                required=True,
            ),
            Field(
                "threshold", "A range is a hit if it has more rows than this.", "T", required=True
            ),
            Field("at_most", "Stop after this many hits; by default 1.", "C"),
        ),
        fixed={"kind": "above"},
        shape="publish",
        writes="may",
        examples=(
            "sfumato watch people --columns age --workload ranges.csv --threshold 9 --vault clinic",
        ),
    ),
    Family(
        name="synthesize",
        help="Generate a synthetic table that resembles a data set, with differential privacy.",
        chapter="Release a table",
        module="sfumato.vault.synth_family",
        fields=(
            Field(
                "method",
                "How to choose what to measure: one of the methods above.",
                "METHOD",
                default="auto",
                choices=METHOD_WORDS,
            ),
            Field(
                "rows",
                "The number of rows to draw; by default an estimate of the number in the data set.",
                "N",
                type=int,
            ),
            Field("columns", "The columns to generate; by default all.", "A,B"),
            Field(
                "quantiles",
                "Columns to bin at private quantiles instead of equal widths; uses a part of "
                "the budget.",
                "A,B",
                default=(),
            ),
            Field(
                "weekdays",
                "Date columns whose day of the week to preserve; each is measured too.",
                "A,B",
                default=(),
            ),
            Field(
                "target",
                "A column that models will predict: its pairs with other columns are "
                "preserved best.",
                "COLUMN",
            ),
            Field(
                "workload",
                "A file of the column sets that matter, one in each line, such as age,sex.",
                "FILE",
                type=Path,
            ),
            Field(
                "form",
                "The form to generate: table, graph, paths or baskets; by default that of the "
                "schema.",
                "FORM",
                flag="--as",
            ),
            Field("nodes", "For a graph: the number of nodes, which must be public.", "N"),
            Field("people", "For a graph: the data set with the attributes of the nodes.", "NAME"),
            Field(
                "child",
                "A data set with several rows for each person, to generate together with this one.",
                "NAME",
                topic="A child table",
            ),
            Field(
                "key",
                "The column in both data sets that links child rows to their parent.",
                "COLUMN",
                topic="A child table",
            ),
        ),
        writes="must",
        out_help="A .csv, .tsv, .parquet or .xlsx, as its name ends.",
        also_writes=(
            Field(
                "model",
                "Also save the model and its noisy measurements, to draw more rows later.",
                "FILE",
                type=Path,
                topic="Output",
            ),
        ),
        explain=("--plan", "--explain"),
        explores=True,
        kinds=FORMS,
        examples=(
            "sfumato synthesize people --epsilon 1 --vault clinic -o twin.csv",
            "sfumato synthesize people --epsilon 1 --vault clinic -o twin.csv --plan",
            "sfumato synthesize people --epsilon 0.4 --explore --yes --vault clinic -o twins",
            "sfumato synthesize people --target smoker --vault clinic -o t.parquet --model m.arrow",
        ),
    ),
    Family(
        name="learn",
        help="Train a model on a data set with differential privacy.",
        chapter="Learn",
        module="sfumato.vault.learn_family",
        fields=(
            Field(
                "kind",
                "The model to train: one of the kinds below.",
                "KIND",
                required=True,
                positional=True,
                choices={name: kind.summary for name, kind in MODELS.items()},
            ),
            Field("features", "The columns to learn from.", "A,B"),
            Field("target", "The column to predict, if the model has one.", "COLUMN"),
        ),
        shape="publish",
        writes="may",
        out_help="A .json file, which 'sfumato predict' reads.",
        kinds=MODELS,
        examples=(
            (
                "sfumato learn naive-bayes people --features age --target sex --epsilon 0.1 "
                "--vault clinic -o m.json"
            ),
            "sfumato learn kmeans people --features age,smoker --vault clinic --explain",
        ),
    ),
    Family(
        name="run",
        help="Run a program on blocks of rows and release a private aggregate of its outputs.",
        chapter="Vaults: budgeted answers",
        module="sfumato.vault.run_family",
        fields=(
            Field(
                "program",
                "A .py or .star file with a function that takes the rows of one block.",
                "PROGRAM",
                required=True,
                positional=True,
                from_file=True,
            ),
            Field(
                "function",
                "The function to call: it takes the rows of one block and returns numbers.",
                "F",
            ),
            Field(
                "language",
                "The language of the program; by default that of its file extension.",
                "LANGUAGE",
                choices=LANGUAGES,
            ),
            Field(
                "output",
                'The range of each number in JSON: [{"low": 0, "high": 100}]; also a name, a share '
                "of the cost.",
                "JSON",
                required=True,
            ),
            Field(
                "blocks",
                "The number of blocks; by default chosen from the declared number of rows, or 100.",
                "N",
                type=int,
            ),
            Field(
                "people",
                "The public number of people, from which the number of blocks is chosen.",
                "N",
                type=int,
            ),
            Field(
                "repeats",
                "How many blocks each person is in; more do not add noise.",
                "N",
                type=int,
                default=1,
            ),
            Field(
                "aggregate",
                "How to aggregate the outputs of all blocks: one of those above.",
                "AGGREGATE",
                default="mean",
                choices=HOW,
            ),
            Field(
                "ranges",
                "How to find the range of the outputs: one of those above.",
                "RANGE",
                default="tight",
                choices=RANGES,
            ),
            Field("helper", "The function that returns the ranges, where they are its own.", "F"),
            Field(
                "columns",
                "The columns to pass to the program; by default all except identifiers.",
                "A,B",
            ),
            Field(
                "seconds",
                "The time limit of one block in seconds.",
                "S",
                type=float,
                default=1.0,
            ),
        ),
        cost=(EPSILON,),
        shape="code",
        explain=("--dry-run", "--explain"),
        examples=(
            (
                "sfumato run ages.py people --function mean_age --vault clinic --seconds 0.2 "
                '--blocks 4 --output \'[{"low": 0, "high": 110}]\' --dry-run'
            ),
        ),
    ),
)
