"""The page of a synthesis has what was measured beside what was drawn, in pictures with words."""

from __future__ import annotations

from collections import Counter
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.unit.methods.synth.test_fixed_values import PEOPLE, SCHEMA

import sfumato as sf
from sfumato.data.schema.constraints import ImpossibleCombination
from sfumato.methods.synth.page import synthesis_blocks
from sfumato.report.picture import Picture
from sfumato.report.value_text import share

if TYPE_CHECKING:
    from pathlib import Path


def test_a_page_shows_what_was_measured_beside_what_was_drawn(tmp_path: Path) -> None:
    never = ImpossibleCombination((("age", (3,)), ("smoker", (True,))))
    with closing(sf.read(PEOPLE, schema=replace(SCHEMA, constraints=(never,)))) as people:
        private = sf.protect(people, unit=sf.Rows(), epsilon=9)
        made = private.synthesize(epsilon=8, workload=[["age", "smoker"], ["paid"]])
        alone = private.synthesize(epsilon=1e-3, method="independent", columns=["smoker"])
    made.save(tmp_path / "out.csv", report=tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    for words in (
        "What was measured, and what was drawn from it",
        "Measured, with noise",
        "age (across) and smoker (up), measured together",
        "Associations between columns of the synthetic rows",
        "never age = 3 with smoker = True",
        "everything on it was released",
    ):
        assert words in page
    assert page.count("<figure") >= len(SCHEMA.columns) + 2
    assert len(made.plot()._repr_html_()) > 1000
    alone.report(tmp_path / "alone.html")
    assert "Columns were measured one by one" in (tmp_path / "alone.html").read_text()


def test_the_largest_cells_of_a_picture_stand_in_its_table() -> None:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        private = sf.protect(people, unit=sf.Rows(), epsilon=9)
        made = private.synthesize(epsilon=8, workload=[["age", "smoker"], ["paid"]])
    [(model, rows)] = made.drawn_from.values()
    pictures = [one for one in synthesis_blocks(model, rows) if isinstance(one, Picture)]
    [table] = [one.table for one in pictures if one.label.startswith("age (across)")]
    assert table.headers == ("age", "smoker", "Measured, with noise", "Synthetic rows")
    assert len(table.rows) == 30
    assert "the 30 largest of" in table.caption
    assert "by the lowest value of each bin" in table.caption
    drawn = Counter((str(one["age"] // 2 * 2), str(one["smoker"])) for one in rows.to_pylist())
    for age, smoker, _, told in table.rows:
        assert told == share(drawn[str(age), str(smoker)] / rows.num_rows)


def test_a_page_without_a_model_has_its_rows(tmp_path: Path) -> None:
    with closing(sf.read(PEOPLE, schema=SCHEMA)) as people:
        sf.protect(people, epsilon=1).synthesize(epsilon=1).save(tmp_path / "out.csv")
    sf.Release.load(tmp_path / "out.csv").report(tmp_path / "page.html")
    assert "The first rows of people" in (tmp_path / "page.html").read_text()
