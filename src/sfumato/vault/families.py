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
    "workload", "The ranges that matter: a table with A_low and A_high.", "FILE", type=Path
)
_COLUMNS = Field("columns", "The columns to publish.", "A,B", required=True)
_SOME = "The columns to publish; graphs, paths and sets have none to name."

FAMILIES = _listed(
    Family(
        name="query",
        help="Ask a question about the data sets of a vault.",
        chapter="Answer questions",
        module="sfumato.vault.query_family",
        fields=(
            Field("asked", "One SELECT.", "SQL", required=True, positional=True),
            Field("weights", "How the cost is shared among the figures.", None),
        ),
        cost=(
            EPSILON,
            RHO,
            replace(DELTA, help="For groups that are not declared, and Gaussian noise."),
        ),
        of_dataset=False,
        examples=(
            'sfumato query "SELECT COUNT(*) FROM people" --epsilon 0.1 --vault clinic',
            'sfumato query "SELECT sex, AVG(age) FROM people GROUP BY sex" --vault clinic',
        ),
    ),
    Family(
        name="publish",
        help="Publish statistics of a data set under differential privacy.",
        chapter="Publish statistics",
        module="sfumato.vault.publish_family",
        fields=(
            Field(
                "kind",
                "What to release: one of the kinds below.",
                "KIND",
                required=True,
                positional=True,
                choices={name: kind.summary for name, kind in KINDS.items()},
            ),
            replace(_COLUMNS, help=_SOME, required=False),
            _WORKLOAD,
            Field(
                "postprocess",
                "Done to noisy counts: nonnegative, integer, total.",
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
        help="Say which ranges hold more rows than a threshold; only hits use up the price.",
        chapter="Publish statistics",
        module="sfumato.vault.publish_family",
        fields=(
            replace(_COLUMNS, help="The columns that ranges are of."),
            replace(_WORKLOAD, help="The ranges: a table with A_low and A_high.", required=True),
            Field("threshold", "Above so many rows a range is a hit.", "T", required=True),
            Field("at_most", "How many hits are paid for; by default 1.", "C"),
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
        help="Make up a table in the form of a data set's, under differential privacy.",
        chapter="Release a table",
        module="sfumato.vault.synth_family",
        fields=(
            Field(
                "method",
                "How to choose what is measured: one of the methods below.",
                "METHOD",
                default="auto",
                choices=METHOD_WORDS,
            ),
            Field(
                "rows",
                "How many rows to draw; by default as many as there are, about.",
                "N",
                type=int,
            ),
            Field("columns", "The columns to have; by default all.", "A,B"),
            Field(
                "quantiles",
                "Columns to cut where rows crowd, at private quantiles: for a part of the price.",
                "A,B",
                default=(),
            ),
            Field(
                "weekdays",
                "Columns of dates whose day of the week is to be kept: each is measured too.",
                "A,B",
                default=(),
            ),
            Field(
                "target",
                "A column that others are to tell: measured with each, or weighed by aim and mst.",
                "COLUMN",
            ),
            Field(
                "workload",
                "The sets of columns that matter, one a line such as age,sex; aim weighs them.",
                "FILE",
                type=Path,
            ),
            Field(
                "form",
                "What to make up: graph, paths, baskets or table; by default as the schema says.",
                "FORM",
                flag="--as",
            ),
            Field("nodes", "Of a graph: how many nodes it has, a number that is public.", "N"),
            Field("people", "Of a graph: the data set that says what nodes are.", "NAME"),
            Field(
                "child",
                "A data set with several rows a person, to be had with this one.",
                "NAME",
                topic="A child table",
            ),
            Field(
                "key",
                "The column of both that says which row a child belongs to.",
                "COLUMN",
                topic="A child table",
            ),
        ),
        writes="must",
        out_help="A .csv, .tsv, .parquet or .xlsx, as its name ends.",
        also_writes=(
            Field(
                "model",
                "Also write the model and the noisy tables, to draw more from.",
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
        help="Learn a model of a data set; it predicts, and holds nothing of anybody.",
        chapter="Learn",
        module="sfumato.vault.learn_family",
        fields=(
            Field(
                "kind",
                "What to learn: one of the kinds below.",
                "KIND",
                required=True,
                positional=True,
                choices={name: kind.summary for name, kind in MODELS.items()},
            ),
            Field("features", "The columns to learn from.", "A,B"),
            Field("target", "The column that they are to tell, where the kind has one.", "COLUMN"),
        ),
        shape="publish",
        writes="may",
        out_help="A .json file, which sfumato predict reads.",
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
        help="Run a program on blocks of people; only a private aggregate of what it gives leaves.",
        chapter="Answer questions",
        module="sfumato.vault.run_family",
        fields=(
            Field(
                "program",
                "A .py or .star file; a function of it is given the rows of one block at a time.",
                "PROGRAM",
                required=True,
                positional=True,
                from_file=True,
            ),
            Field(
                "function",
                "The function that is called with the rows of a block, and gives numbers.",
                "F",
            ),
            Field(
                "language",
                "What the program is written in; by default what the ending of its file says.",
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
                "How many blocks; by default what suits the declared number of rows, or 100.",
                "N",
                type=int,
            ),
            Field(
                "people",
                "How many people everybody may know there are; blocks are chosen by it.",
                "N",
                type=int,
            ),
            Field(
                "repeats",
                "In how many blocks everybody is; noise does not grow by it.",
                "N",
                type=int,
                default=1,
            ),
            Field(
                "aggregate",
                "What leaves of all blocks: one of those below.",
                "AGGREGATE",
                default="mean",
                choices=HOW,
            ),
            Field(
                "ranges",
                "How outputs get the range they are kept in: one of those below.",
                "RANGE",
                default="tight",
                choices=RANGES,
            ),
            Field("helper", "The function that makes ranges, where they are its own.", "F"),
            Field("columns", "The columns that it sees; by default all but identifiers.", "A,B"),
            Field(
                "seconds",
                "How long one block may take; the answer waits for all.",
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
