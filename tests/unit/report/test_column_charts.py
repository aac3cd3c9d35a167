"""Values on pages: a whole text in a cell is cut."""

from __future__ import annotations

from typing import TYPE_CHECKING

import sfumato as sf
from sfumato.report.column_charts import cell_text

if TYPE_CHECKING:
    from pathlib import Path

LONG = "a" * 10_000
SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), sf.Widths((50,))),
        sf.Column("said", sf.Kind.TEXT, sf.Role.SENSITIVE, sf.Values((LONG, "b"))),
    ),
)
ROWS = [{"age": n % 50, "said": LONG if n % 2 else "b"} for n in range(100)]


def test_a_value_is_cut_and_says_so() -> None:
    assert cell_text(LONG) == "a" * 79 + "…"
    assert cell_text("x" * 80) == "x" * 80


def test_no_page_has_a_long_cell_whole(tmp_path: Path) -> None:
    with sf.read(ROWS, SCHEMA) as people:
        crowd = people.anonymize(k=2)
        private = sf.protect(people, epsilon=9)
        counts = private.publish("histogram", columns=["said"], epsilon=1)
        twin = private.synthesize(epsilon=1)
        crowd.save(tmp_path / "a.csv", report=tmp_path / "a.html")
        counts.save(tmp_path / "b.csv", report=tmp_path / "b.html")
        twin.save(tmp_path / "c.csv", report=tmp_path / "c.html")
        sf.evaluate(twin, people).report(tmp_path / "d.html")
    for name in "abcd":
        page = (tmp_path / f"{name}.html").read_text().replace("<wbr>", "")
        assert "a" * 20 in page
        assert "a" * 161 not in page  # two values at most stand in a sentence
