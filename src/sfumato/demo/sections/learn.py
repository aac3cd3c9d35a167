"""Learn models that predict who is ill, without revealing anyone."""

from __future__ import annotations

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
    """Show how well private models predict, at three values of epsilon."""
    table = health(town.people)
    # Tested on other people: on its own training data a model looks better than it is.
    tested = table.num_rows // 4
    training, test_rows = table.slice(tested), table.slice(0, tested)
    usual = max(np.unique(test_rows["ill"].to_numpy(zero_copy_only=False), return_counts=True)[1])
    return [
        Heading("Learn a model"),
        Paragraph(
            "Sfumato trains a model from noisy counts and sums, so the model protects every person "
            "in its training data, and its predictions cost no further budget. Here models predict "
            "from age, sex and visits to the clinic whether a person is ill. They learn from "
            f"{training.num_rows:,} people and are tested on {tested:,} others. Always predicting "
            f"the most common value is right for {100 * usual / tested:.0f} %."
        ),
        _scores(training, test_rows),
        Note(
            "All bounds are declared and public. Learning several models and keeping the best "
            "costs the budget of each; so does the test, if it uses rows of the same people."
        ),
    ]


def health(people: pa.Table) -> pa.Table:
    """Age, sex and visits of everybody, and whether they are ill."""
    born = people["birth_date"].to_numpy().astype("datetime64[Y]").astype(np.int64) + 1970
    ill = np.where(_text_column(people, "disease") == "none", "no", "yes")
    # Clipped to the declared bounds, as a clinic would do before any model sees the rows.
    age = np.clip(_YEAR - born, 0, 100)
    sex, visits = (people[name].combine_chunks() for name in ("sex", "visits"))
    return pa.table({"age": age, "sex": sex, "visits": visits, "ill": ill})


def _text_column(people: pa.Table, name: str) -> NDArray[np.str_]:
    return np.array(people[name].to_pylist(), dtype=str)


def _scores(training: pa.Table, test_rows: pa.Table) -> Picture:
    """The share of other people that each model predicts correctly, at each epsilon."""
    truth, points = _text_column(test_rows, "ill"), []
    with read(training, _SCHEMA) as opened:
        for name, kind in _KINDS.items():
            for epsilon in _EPSILONS:
                private = protect(opened, epsilon=epsilon)
                model = private.learn(kind, features=_FEATURES, target="ill", epsilon=epsilon)
                points.append(Point(name, float(epsilon), model.score(test_rows, truth)))
    return draw_lines(
        points,
        label="Share of other people predicted correctly",
        x="Epsilon",
        y="Share",
        series="Model",
        logarithmic=True,
    )
