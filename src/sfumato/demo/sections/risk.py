"""See the risk: who stands out in the table, and who can be named with a public list."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from sfumato.data.inspection.uniqueness import LARGEST, SMALL
from sfumato.report.bars import draw_bars, draw_skyline
from sfumato.report.blocks import Heading, Headline, KeyFigures, Note, PageTable, Paragraph
from sfumato.report.people_grid import draw_people
from sfumato.report.value_text import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.data.inspection.uniqueness import SetRisk
    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block

KNOWN = ("birth_date", "sex", "zip")
"""What the voter list, a birthday card or a neighbour tells about anyone."""
_TELLING = ("HIV", "cancer", "depression", "dementia")
_EXAMPLES = 6
_NAMED = 3


def section(town: Town) -> list[Block]:
    """Show who is unique, by which columns, and who is named by linking."""
    sets = town.inspection.sets
    known = next(one for one in sets if set(one.columns) == set(KNOWN))
    return [
        Heading("See the risk"),
        Paragraph(
            f"A clinic holds one row for each of the {known.rows:,} people of a town. Before it "
            "shares the table it strikes out the names and the social security numbers. Is that "
            "enough?"
        ),
        Headline(
            f"{100 * known.unique_share:.0f} %",
            "of these people are the only one with their date of birth, sex and ZIP code.",
            draw_people(
                known.unique_share,
                label=f"Of a hundred people, {100 * known.unique_share:.0f} stand alone.",
                inside="alone",
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
        ("journalist", "looks for anyone at all", risk.journalist),
        ("marketer", "links the whole table at once", risk.marketer),
    )
    count = len(everything.columns)
    return [
        KeyFigures(
            [
                (
                    share(everything.unique_share),
                    f"are alone by all {count} columns that others may know",
                ),
                (
                    share(everything.small_share),
                    f"are alone or share all {count} with fewer than {SMALL - 1} others",
                ),
            ]
        ),
        PageTable(
            f"How often an attacker who knows those {count} columns picks the right row",
            ("Attacker", "What they do", "On average", "At worst"),
            [(name, what, share(one.average), share(one.highest)) for name, what, one in attackers],
        ),
    ]


def _columns(sets: Sequence[SetRisk]) -> list[Block]:
    """Every set of columns as a skyline; the most telling of each size by name."""
    by_columns = {frozenset(one.columns): one for one in sets}
    known = by_columns[frozenset(KNOWN)]
    alone = {name: by_columns[frozenset([name])].unique_share for name in KNOWN}
    telling = {known.columns: known}
    for size in range(1, LARGEST + 1):
        same = [one for one in sets if len(one.columns) == size]
        best = sorted(same, key=lambda one: -one.unique_share)[:_NAMED]
        telling |= {one.columns: one for one in best}
    ordered = sorted(telling.values(), key=lambda one: (len(one.columns), one.unique_share))
    return [
        Heading("Which columns give people away", level=3),
        Paragraph(
            f"Sex alone points at {share(alone['sex'])} of the people, the ZIP code at "
            f"{share(alone['zip'])}, the date of birth at "
            f"{share(alone['birth_date'])}. None is enough alone; together they draw an "
            "outline around each person. Every bar is one set of columns, and its height the share "
            "of people who are alone with their values."
        ),
        draw_skyline(
            [
                (_name(one), str(len(one.columns)), one.unique_share)
                for one in sorted(sets, key=lambda one: len(one.columns))
            ],
            label=f"Share of people who are unique, for each of {len(sets)} sets of columns",
            what="Columns",
            series="Columns known",
            value="Unique people",
            percent=True,
        ),
        draw_bars(
            [(_name(one), one.unique_share) for one in ordered],
            label="The most telling sets of one, two, three and four columns",
            what="Columns",
            value="Unique people",
            percent=True,
            accent=_name(known),
        ),
    ]


def _linking(town: Town) -> list[Block]:
    """Join the clinic's table to the voter list by what both hold."""
    alone = _voters_alone(town.voters)
    linked = town.people.join(alone, keys=list(KNOWN), join_type="inner")
    right = linked.filter(pc.equal(linked["name"], linked["voter"]))
    rows = town.people.num_rows
    chance = right.num_rows / linked.num_rows
    return [
        Heading("Putting names back", level=3),
        Paragraph(
            f"Anyone may buy the voter list. It names {town.voters.num_rows:,} people with their "
            "address, date of birth, sex and ZIP code, and no illness. The clinic's table has the "
            "illness and no names. Laid side by side:"
        ),
        KeyFigures(
            [
                (f"{linked.num_rows:,}", "rows of the clinic match exactly one voter"),
                (share(linked.num_rows / rows), "of all its rows now carry a name"),
                (share(chance), "of these names are right"),
            ]
        ),
        _examples(right),
        Note(
            "Everyone here is made up, by a program, from names of paints; that is why their "
            "names may be shown. With real data this page would show counts only.",
            warning=True,
        ),
    ]


def _voters_alone(voters: pa.Table) -> pa.Table:
    """The voters who are the only one on the list with what is known about them."""
    groups = voters.group_by(list(KNOWN)).aggregate(
        [("name", "count"), ("name", "min"), ("address", "min")]
    )
    alone = groups.filter(pc.equal(groups["name_count"], 1))
    return alone.drop_columns(["name_count"]).rename_columns(
        {"name_min": "voter", "address_min": "address"}
    )


def _examples(right: pa.Table) -> PageTable:
    telling = right.filter(pc.is_in(right["disease"], pa.array(_TELLING))).sort_by("person")
    columns = ["voter", "disease", *KNOWN, "address"]
    return PageTable(
        "Some of the people found, by linking three columns",
        ("Name", "Treated for", "Born", "Sex", "ZIP", "Address"),
        [
            tuple(str(row[column]) for column in columns)
            for row in telling.slice(0, _EXAMPLES).to_pylist()
        ],
    )


def _roles(town: Town) -> PageTable:
    """What the program makes of each column, beside what a person has declared."""
    return PageTable(
        "What each column says about a person: guessed from the data, then confirmed by a person",
        ("Column", "Guess", "Why", "Confirmed as"),
        [
            (guess.column.name, guess.column.role.value, guess.reason, known.column.role.value)
            for guess, known in zip(town.guesses, town.inspection.guesses, strict=True)
        ],
        folded=True,
    )


def _name(one: SetRisk) -> str:
    return " + ".join(column.replace("_", " ") for column in one.columns)
