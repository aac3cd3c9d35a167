"""What an attacker still gets: the same attacks on the table, on its releases and at the door."""

from __future__ import annotations

from contextlib import closing
from fractions import Fraction
from functools import partial
from importlib.resources import as_file, files
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria.request import CriteriaRequest
from sfumato.anonymize.pipeline import anonymize
from sfumato.attack.finding import Finding, percent
from sfumato.attack.options import AttackOptions
from sfumato.attack.page import attacks_picture
from sfumato.attack.runner import attack
from sfumato.demo.sections.anonymize import K
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, Note, Paragraph

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block

_LISTED = 4_000
"""So many of the voters are looked up, evenly."""
_GAMES = 300
_PRICES = (Fraction(1), Fraction(4))
_SENSITIVE = ("disease", "salary")


def section(town: Town) -> list[Block]:
    """Show linking on three tables, what classes say, and what questions say of one person."""
    with as_file(files("sfumato.demo").joinpath("town.toml")) as schema:
        crowded = _crowded(town.people, schema)
        play = partial(_played, schema)
        return [
            Heading("What an attacker still gets"),
            Paragraph(
                "A release is worth what it withstands. Here the attacker is us: how often is "
                "somebody with the voters' list right, and how often would a guess be?"
            ),
            *_linking(town, crowded, play),
            *_homogeneity(crowded, play),
            *_differencing(town, play),
            Note(
                "An attack that fails proves no safety: it is one attacker, with one knowledge. "
                "Only differential privacy limits what all of them can learn, those too that "
                "nobody has thought of."
            ),
        ]


def _played(schema: Path, name: str, release: pa.Table, **more: object) -> Finding:
    found = attack(name, release, schema, **more)  # type: ignore[arg-type]
    assert isinstance(found, Finding)
    return found


def _crowded(people: pa.Table, schema: Path) -> pa.Table:
    """The town with labels of their own for each box of people."""
    with closing(read(people, schema)) as opened:
        criteria = CriteriaRequest(k=K).criteria(opened.schema, _SENSITIVE)
        return anonymize(opened, criteria, algorithm="mondrian", advice=False).release().table


def _linking(town: Town, crowded: pa.Table, play: Callable[..., Finding]) -> list[Block]:
    step = max(town.voters.num_rows // _LISTED, 1)
    voters = town.voters.take(np.arange(0, town.voters.num_rows, step))
    released = {
        "Without names": town.people,
        f"{K}-anonymous": crowded,
        "Synthetic twin": town.twin,
    }
    found = {
        name: play("link", table, known=voters, original=town.people, synthetic=table is town.twin)
        for name, table in released.items()
    }
    raw, crowd, twin = (percent(one.success.value) for one in found.values())
    return [
        Heading("Looking people up", level=3),
        Paragraph(
            f"{raw} of the voters are found in the table without names. Among people who look "
            f"alike it is {crowd}, and in the twin {twin}: rows there are nobody's, and tell no "
            "more of those who are in the data than of anyone."
        ),
        attacks_picture(
            [*found.values()], label="Voters whose row is found, in three tables", names=[*found]
        ),
    ]


def _homogeneity(crowded: pa.Table, play: Callable[..., Finding]) -> list[Block]:
    found = [
        play("homogeneity", crowded, options=AttackOptions(sensitive=name)) for name in _SENSITIVE
    ]
    disease, salary = found
    return [
        Heading("Knowing without finding", level=3),
        Paragraph(
            "Where all who look alike share a value, nobody has to be found to be known: in the "
            f"{K}-anonymous table the disease of {disease.victims:,} people and the salary of "
            f"{salary.victims:,} are certain. Diversity is what prevents it."
        ),
        attacks_picture(
            found,
            label=f"People whose value is certain in the {K}-anonymous table",
            names=[f"Their {name}" for name in _SENSITIVE],
        ),
    ]


def _differencing(town: Town, play: Callable[..., Finding]) -> list[Block]:
    found = [
        play(
            "differencing",
            town.people,
            options=AttackOptions(epsilon=price, guesses=_GAMES),
        )
        for price in _PRICES
    ]
    last = found[-1]
    return [
        Heading("Asking twice", level=3),
        Paragraph(
            "How many people are there, and how many without this one? The difference of two true "
            "answers tells of one person. Through the door of a vault both have noise, and no "
            f"cleverness passes the line but by chance: at epsilon {_PRICES[-1]} it stands at "
            f"{percent(last.bound or 1.0)}, and {percent(last.success.value)} were right."
        ),
        attacks_picture(
            found,
            label=f"Is the victim in the table? {_GAMES} games each, with two questions",
            names=[f"Epsilon {float(price):g}" for price in _PRICES],
        ),
    ]
