"""Learn: who of the town is ill, told from age and work, by a model that holds nobody."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from sfumato.data.schema.column import Column, Kind
from sfumato.data.schema.domain import Bounds, Values
from sfumato.data.schema.schema import Schema
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, Note, Paragraph
from sfumato.report.points import Point, draw_lines
from sfumato.vault.protection import protect

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block
    from sfumato.report.picture import Picture

_EPSILONS = ("0.01", "0.1", "1")
_KINDS = {"naive Bayes": "naive-bayes", "logistic regression": "logistic"}
_FEATURES = ("age", "sex", "visits")
_YEAR = 2024
"""The year in which the town was counted."""
_SCHEMA = Schema(
    "health",
    (
        Column("age", Kind.INTEGER, domain=Bounds(0, 100)),
        Column("sex", Kind.TEXT, domain=Values(("F", "M"))),
        Column("visits", Kind.INTEGER, domain=Bounds(0, 12)),
        Column("ill", Kind.TEXT, domain=Values(("no", "yes"))),
    ),
)


def section(town: Town) -> list[Block]:
    """Tell how well models learnt under a budget predict, at three prices."""
    table = health(town.people)
    held = table.num_rows // 4
    learnt, others = table.slice(held), table.slice(0, held)
    usual = max(np.unique(others["ill"].to_numpy(zero_copy_only=False), return_counts=True)[1])
    return [
        Heading("Learn a model"),
        Paragraph(
            "A model can be learnt from counts and sums with noise, and then predicts for free: "
            "nothing of anybody is in it. Here models tell who has an illness by age, sex and "
            f"visits to the clinic. They learn from {learnt.num_rows:,} people and are tried on "
            f"{held:,} others, of whom who always says the usual gets {usual / held:.0%} right."
        ),
        _scores(learnt, others),
        Note(
            "All bounds are declared and public. Trying several models and keeping the best would "
            "cost the price of each, and the trying too, if it is on rows of the same people."
        ),
    ]


def health(people: pa.Table) -> pa.Table:
    """Age, sex and visits of everybody, and whether they are ill."""
    born = people["birth_date"].to_numpy().astype("datetime64[Y]").astype(np.int64) + 1970
    ill = np.where(_words(people, "disease") == "none", "no", "yes")
    age = np.clip(_YEAR - born, 0, 100)
    sex, visits = (people[name].combine_chunks() for name in ("sex", "visits"))
    return pa.table({"age": age, "sex": sex, "visits": visits, "ill": ill})


def _words(people: pa.Table, name: str) -> NDArray[np.str_]:
    return np.array(people[name].to_pylist(), dtype=str)


def _scores(learnt: pa.Table, others: pa.Table) -> Picture:
    """The share of others that each model tells rightly, at each price."""
    truth, points = _words(others, "ill"), []
    with closing(read(learnt, _SCHEMA)) as opened:
        for name, kind in _KINDS.items():
            for epsilon in _EPSILONS:
                private = protect(opened, epsilon=epsilon)
                model = private.learn(kind, features=_FEATURES, target="ill", epsilon=epsilon)
                points.append(Point(name, float(epsilon), model.score(others, truth)))
    return draw_lines(
        points,
        label="Share of other people whom the model tells rightly",
        x="Epsilon",
        y="Share",
        series="Model",
        logarithmic=True,
    )
