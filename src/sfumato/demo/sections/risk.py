"""The risk: how many people are unique, and who can be named by a public list."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.inspection.risk import LARGEST, SMALL
from sfumato.report.bars import draw_bars, draw_people
from sfumato.report.blocks import Heading, Headline, KeyFigures, Note, PageTable, Paragraph
from sfumato.report.points import Point, draw_lines
from sfumato.report.value_text import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.inspection.risk import SetRisk
    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

KNOWN = ("birth_date", "sex", "zip")
"""Facts about anyone that the voter list, a birthday card or a neighbour reveals."""
_REVEALING = ("HIV", "cancer", "depression", "dementia")
_EXAMPLES = 6
_NAMED = 3


def section(town: Town) -> list[Block]:
    """Show who is unique, by which columns, and who can be named by linking."""
    sets = town.inspection.sets
    known = next(risk for risk in sets if set(risk.columns) == set(KNOWN))
    return [
        Heading("See the risk"),
        Paragraph(
            f"A clinic has one row for each of the {known.rows:,} people of a town. Before sharing "
            "the table it removes the names and the social security numbers. Is that enough?"
        ),
        Headline(
            f"{100 * known.unique_share:.0f} %",
            "of these people are unique by date of birth, sex and ZIP code.",
            draw_people(
                known.unique_share,
                label=f"{100 * known.unique_share:.0f} of 100 people are unique.",
                inside="unique",
                outside="shares all three with someone",
            ),
        ),
        *_attackers(town),
        *_columns(sets),
        *_linking(town),
        _roles(town),
    ]


def _attackers(town: Town) -> list[Block]:
    """The risk of re-identification by all quasi-identifiers together."""
    everything = town.inspection.full
    risk = town.inspection.reidentification
    attackers = (
        ("prosecutor", "knows that the person is in the table", risk.prosecutor),
        ("journalist", "looks for any person", risk.journalist),
        ("marketer", "links the whole table at once", risk.marketer),
    )
    count = len(everything.columns)
    return [
        KeyFigures(
            [
                (
                    share(everything.unique_share),
                    f"are unique by all {count} columns that others may know",
                ),
                (
                    share(everything.small_share),
                    f"share all {count} columns with fewer than {SMALL - 1} others",
                ),
            ]
        ),
        PageTable(
            f"How often an attacker who knows these {count} columns picks the right row",
            ("Attacker", "What they do", "On average", "At worst"),
            [
                (name, action, share(rates.average), share(rates.highest))
                for name, action, rates in attackers
            ],
        ),
    ]


def _columns(sets: Sequence[SetRisk]) -> list[Block]:
    """Every set of columns in one chart; the most revealing of each size by name."""
    by_columns = {frozenset(risk.columns): risk for risk in sets}
    known = by_columns[frozenset(KNOWN)]
    alone = {name: by_columns[frozenset([name])].unique_share for name in KNOWN}
    revealing = {known.columns: known}
    for size in range(1, LARGEST + 1):
        same_size = [risk for risk in sets if len(risk.columns) == size]
        # The most revealing first; ties keep the order of the columns.
        best = sorted(same_size, key=lambda risk: -risk.unique_share)[:_NAMED]
        revealing |= {risk.columns: risk for risk in best}
    ordered = sorted(revealing.values(), key=lambda risk: (len(risk.columns), risk.unique_share))
    return [
        Heading("Which columns reveal people", level=3),
        Paragraph(
            f"Sex alone identifies {share(alone['sex'])} of the people, the ZIP code "
            f"{share(alone['zip'])}, the date of birth "
            f"{share(alone['birth_date'])}. None is enough alone, but together they reveal most "
            "people. Every step of a line is one set of columns; its height is the share of people "
            "who are unique by them."
        ),
        _draw_all_sets(sets),
        draw_bars(
            [(_name(risk), risk.unique_share) for risk in ordered],
            label="The most revealing sets of one, two, three and four columns",
            category="Columns",
            value="Unique people",
            percent=True,
            accent=_name(known),
        ),
    ]


def _linking(town: Town) -> list[Block]:
    """Join the table of the clinic with the voter list by the columns that both have."""
    # A voter who shares the three columns with another cannot be told apart from them.
    alone = _voters_alone(town.voters)
    linked = town.people.join(alone, keys=list(KNOWN), join_type="inner")
    right = linked.filter(pc.equal(linked["name"], linked["voter"]))
    rows = town.people.num_rows
    # Not all: the person of a row may not vote, while another with the same columns does.
    chance = right.num_rows / linked.num_rows
    return [
        Heading("Linking names", level=3),
        Paragraph(
            f"Anyone can buy the voter list. It names {town.voters.num_rows:,} people with their "
            "address, date of birth, sex and ZIP code, but no illness. The table of the clinic has "
            "the illness but no names. Joined, they show:"
        ),
        KeyFigures(
            [
                (f"{linked.num_rows:,}", "rows of the clinic match exactly one voter"),
                (share(linked.num_rows / rows), "of all its rows now have a name"),
                (share(chance), "of these names are right"),
            ]
        ),
        _examples(right),
        Note(
            "Everyone here is made up, with names of paints, so this page may show their names. "
            "With real data it would show only counts.",
            warning=True,
        ),
    ]


def _voters_alone(voters: pa.Table) -> pa.Table:
    """The voters who are unique on the list by the columns that both tables have."""
    groups = voters.group_by(list(KNOWN)).aggregate(
        [("name", "count"), ("name", "min"), ("address", "min")]
    )
    alone = groups.filter(pc.equal(groups["name_count"], 1))
    return alone.drop_columns(["name_count"]).rename_columns(
        {"name_min": "voter", "address_min": "address"}
    )


def _examples(right: pa.Table) -> PageTable:
    revealing = right.filter(pc.is_in(right["disease"], pa.array(_REVEALING))).sort_by("person")
    columns = ["voter", "disease", *KNOWN, "address"]
    return PageTable(
        "Some of the people found by linking three columns",
        ("Name", "Treated for", "Born", "Sex", "ZIP", "Address"),
        [
            tuple(str(row[column]) for column in columns)
            for row in revealing.slice(0, _EXAMPLES).to_pylist()
        ],
    )


def _roles(town: Town) -> PageTable:
    """The role of each column as guessed by the program, and as declared by a person."""
    return PageTable(
        "The role of each column: guessed from the data, then confirmed by a person",
        ("Column", "Guess", "Reason", "Confirmed as"),
        [
            (guess.column.name, guess.column.role.value, guess.reason, known.column.role.value)
            for guess, known in zip(town.guesses, town.inspection.guesses, strict=True)
        ],
        folded=True,
    )


def _name(risk: SetRisk) -> str:
    return " + ".join(column.replace("_", " ") for column in risk.columns)


def _draw_all_sets(sets: Sequence[SetRisk]) -> Picture:
    """One line for each number of columns; its steps are the sets, the least revealing first."""
    ordered = sorted(sets, key=lambda risk: (len(risk.columns), risk.unique_share))
    points = []
    for size, same_size in groupby(ordered, key=lambda risk: len(risk.columns)):
        shares = [risk.unique_share for risk in same_size]
        name = "1 column" if size == 1 else f"{size} columns"
        points += [
            Point(name, rank / len(shares), unique_share)
            for rank, unique_share in enumerate([*shares, shares[-1]])
        ]
    label = f"Share of people who are unique, for each of {len(sets)} sets of columns"
    rows = [
        (_name(risk), len(risk.columns), share(risk.unique_share))
        for risk in sorted(sets, key=lambda risk: -risk.unique_share)
    ]
    table = PageTable(label, ("Columns", "Columns known", "Unique people"), rows)
    return draw_lines(
        points, label=label, x="Share of these sets, the least revealing first", y="Unique people",
        series="Known to the attacker", percent=True, steps=True, table=table,
    )  # fmt: skip
