"""The made-up county as large as wanted, made by DuckDB itself: the rows that the demo makes.

Every draw of `sfumato.demo.draws` is written as SQL over row numbers, so 100 million people cost
minutes and no memory of ours; a test holds both to the same rows. Two columns differ: the name is
left out, and `household` numbers groups of two and three neighbours, for units that are not rows.
"""

from __future__ import annotations

import os
from importlib.resources import files
from math import pi, sqrt
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb

from sfumato.demo import town, vocabulary
from sfumato.demo.draws import FIRST, GOLDEN, SECOND, stream

if TYPE_CHECKING:
    from collections.abc import Sequence

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "sfumato-bench"
"""Where tables once made are kept; 100 million rows take about 2 GB."""

_MACROS = f"""
CREATE MACRO low_64(number) AS (number & {(1 << 64) - 1}::UHUGEINT)::UBIGINT;
CREATE MACRO folded(bits, places) AS xor(bits, bits >> places);
CREATE MACRO times(bits, factor) AS low_64(bits::UHUGEINT * factor::UHUGEINT);
CREATE MACRO mixed(bits) AS
    folded(times(folded(times(folded(bits, 30), {FIRST}), 27), {SECOND}), 31);
CREATE MACRO uniform(i, stream) AS
    (mixed(low_64(i::UHUGEINT * {GOLDEN}::UHUGEINT + stream::UHUGEINT)) >> 32)::DOUBLE
    * {2.0**-32!r};
"""


def county(rows: int, folder: Path = CACHE) -> Path:
    """The Parquet file of the first so many people, made unless it is there."""
    path = folder / f"county_{rows}.parquet"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".part")
        with duckdb.connect() as connection:
            connection.execute("SET enable_progress_bar = false")
            connection.execute(_MACROS)
            _tables(connection)
            connection.execute(f"COPY ({_people(rows)}) TO '{unfinished}' (FORMAT parquet)")
        unfinished.replace(path)
    return path


def schema_file(folder: Path, *, unit: str = '"row"') -> Path:
    """The demo's schema file, with all post codes, households, and no name.

    The date of birth is no quasi-identifier: with it nearly every row would be a combination of
    its own, and what is measured is how time grows with rows, not with combinations.
    """
    text = files("sfumato.demo").joinpath("town.toml").read_text(encoding="utf-8")
    for old, new in (
        ('unit = "row"', f"unit = {unit}"),
        (
            '[columns.name]\nrole = "identifier"\nkind = "text"',
            '[columns.household]\nrole = "identifier"\nkind = "integer"\nnullable = false',
        ),
        (_toml(town.ZIPS[:6]), _toml(town.ZIPS)),
        ('[columns.birth_date]\nrole = "quasi"', '[columns.birth_date]\nrole = "other"'),
    ):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path = folder / "county.toml"
    path.write_text(text, encoding="utf-8")
    return path


def _toml(values: Sequence[str]) -> str:
    return "[" + ", ".join(f'"{value}"' for value in values) + "]"


def _tables(connection: duckdb.DuckDBPyConnection) -> None:
    """One table for each fact that depends on another: the steps between options, by group."""
    for fact, choice in town.CHOICES.items():
        steps = choice.steps.reshape(-1, choice.options)
        names = ", ".join(f"s{place} DOUBLE" for place in range(choice.options))
        table = _table(fact)
        connection.execute(f"CREATE TABLE {table} (g BIGINT, {names})")
        rows = [[place, *row] for place, row in enumerate(steps.tolist())]
        marks = ", ".join("?" * (choice.options + 1))
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)


def _table(fact: str) -> str:
    return fact.replace(" ", "_") + "_steps"


def _chosen(fact: str, rows: str, group: str | None, name: str) -> str:
    """Rows with one more column: the option that a person's draw falls on in their group."""
    options = town.CHOICES[fact].options
    drawn = f"SELECT *, uniform(i, {stream(fact)}) AS draw FROM {rows}"
    # The last step is never reached: draws end below it.
    if group is None:
        steps = town.CHOICES[fact].steps[:-1].tolist()
        passed = " + ".join(f"(draw >= {step!r}::DOUBLE)::BIGINT" for step in steps)
        return f"(SELECT * EXCLUDE (draw), {passed} AS {name} FROM ({drawn}))"
    passed = " + ".join(f"(draw + g >= s{place})::BIGINT" for place in range(options - 1))
    made = ", ".join(["draw", "g", *(f"s{place}" for place in range(options))])
    joined = f"({drawn}) JOIN {_table(fact)} ON g = {group}"
    return f"(SELECT * EXCLUDE ({made}), {passed} AS {name} FROM {joined})"


def _word(code: str, words: Sequence[str] | Sequence[float]) -> str:
    return f"[{', '.join(map(repr, words))}][1 + {code}]"


def _people(rows: int) -> str:
    people = f"(SELECT range::UBIGINT AS i FROM range({rows}))"
    oldest, quarters = 100, vocabulary.QUARTERS
    for fact, group, name in (
        ("quarter", None, "quarter"),
        ("age", None, "age"),
        ("sex", "age", "sex_code"),
        ("education", f"age * {quarters} + quarter", "degree"),
        ("disease", f"sex_code * {oldest} + age", "illness"),
        ("visits", "illness", "visits"),
        ("marital status", f"sex_code * {oldest} + age", "marital"),
        ("occupation", f"degree * {oldest} + age", "trade"),
        ("race", None, "race_code"),
    ):
        people = _chosen(fact, people, group, name)
    days = f"floor((age + uniform(i, {stream('birthday')})) * 365.2425)::INTEGER"
    zips = f"(i::BIGINT // {town.TOWN_SIZE} * {quarters} % {len(town.ZIPS)} + quarter)"
    number = "((i % 40000000) * 26180339 % 40000000)"
    return f"""SELECT (i + 1)::BIGINT AS person,
        floor(i / 2.4)::BIGINT AS household,
        ({number} // 400000 + 900) || '-' || ({number} % 400000 // 10000 + 10) || '-'
            || lpad(({number} % 10000)::VARCHAR, 4, '0') AS ssn,
        DATE '1970-01-01' + ({town.LAST_DAY} - {days}) AS birth_date,
        {_word("sex_code", vocabulary.SEXES)} AS sex,
        {_word(f"({zips} // 96)", vocabulary.ZIP_PREFIXES)}
            || lpad(({zips} % 96)::VARCHAR, 2, '0') AS zip,
        {_word("race_code", vocabulary.RACES)} AS race,
        {_word("marital", vocabulary.MARITAL_STATUSES)} AS marital_status,
        {_word("degree", vocabulary.EDUCATIONS)} AS education,
        {_word("trade", vocabulary.OCCUPATIONS)} AS occupation,
        {_salary()} AS salary,
        {_word("illness", vocabulary.DISEASES)} AS disease,
        visits
        FROM {people}"""


def _salary() -> str:
    middle = f"(uniform(i, {stream('salary')}) * {1 - 2.0**-12!r} + {2.0**-13!r})"
    bell = f"(ln({middle} / (1 - {middle})) * {sqrt(3) / pi!r})"
    wealth = _word("quarter", vocabulary.QUARTER_WEALTH.tolist())
    income = _word("trade", vocabulary.OCCUPATION_INCOME.tolist())
    experience = "(1 - 0.35::DOUBLE * least(greatest((50 - age) / 32, 0), 1))"
    spread = f"exp(0.28::DOUBLE * {bell} + 0.5::DOUBLE * {wealth}::DOUBLE)"
    hundreds = f"{income}::DOUBLE * 10 * {experience} * {spread}"
    return f"least(greatest(round_even({hundreds}, 0), 0), 5000)::BIGINT * 100"
