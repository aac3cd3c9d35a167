"""Values that a person wrote into a hierarchy are enough for questions and publications."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.fixtures.ledgers import code_of

import sfumato as sf
from sfumato.data.schema.hierarchy import Tree
from sfumato.data.schema.schema_file import load
from sfumato.errors import CallerError

if TYPE_CHECKING:
    from pathlib import Path

    from sfumato.data.schema.hierarchy import Hierarchy
    from sfumato.vault.private import Private

COUNT = "SELECT x, COUNT(*) AS n FROM t GROUP BY x"
ROWS = pa.table({"x": ["a"] * 40 + ["b"] * 30 + ["secret"], "y": [0.5] * 70 + [7.25]})


def protected(hierarchy: Hierarchy) -> Private:
    schema = sf.Schema(
        "t",
        (
            sf.Column("x", sf.Kind.TEXT, hierarchy=hierarchy, nullable=False),
            sf.Column("y", sf.Kind.REAL, domain=sf.Bounds(Decimal(0), Decimal(8)), nullable=False),
        ),
    )
    return sf.protect(sf.read(ROWS, schema), epsilon=5)


TREE = Tree(("b", "a", "c"), (("B", "*"), ("A", "*"), ("A", "*")))


def test_F10_a_question_shows_the_leaves_and_no_other_value() -> None:
    answer = protected(TREE).query(COUNT, epsilon=1)
    assert answer.table["x"].to_pylist() == ["a", "b", "c"]


def test_a_publication_has_the_leaves_as_cells() -> None:
    histogram = protected(TREE).publish("histogram", columns=["x"], epsilon=1)
    assert histogram.table["x"].to_pylist() == ["b", "a", "c"]


def test_the_leaves_of_a_file_count_as_well(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a;*\nb;*\n")
    text = 'table = "t"\n[columns.x]\nkind = "text"\nnullable = false\n'
    (tmp_path / "t.toml").write_text(text + 'hierarchy = { file = "x.csv" }\n')
    column = load(tmp_path / "t.toml").column("x")
    assert column.hierarchy is not None
    assert protected(column.hierarchy).query(COUNT, epsilon=1).table["x"].to_pylist() == ["a", "b"]


def test_F10_leaves_that_were_only_seen_are_shown_by_a_threshold_alone() -> None:
    seen = protected(Tree(("a", "b", "secret"), (("*",),) * 3, seen=True))
    assert code_of(seen.query, COUNT, epsilon=1) == "parameter_missing"
    assert code_of(seen.publish, "histogram", columns=["x"], epsilon=1) == "domain_missing"


def test_F14_a_table_that_was_only_guessed_knows_no_domain() -> None:
    guessed = sf.protect(sf.read(ROWS), epsilon=5)
    question = "SELECT x, COUNT(*) AS n FROM people GROUP BY x"
    assert code_of(guessed.query, question, epsilon=1) == "parameter_missing"


def test_reals_without_a_step_are_published_in_round_ones() -> None:
    histogram = protected(TREE).publish("histogram", columns=["y"], epsilon=1)
    assert histogram.table.num_rows == 161
    assert histogram.table["y"][1].as_py() == 0.05


@pytest.mark.parametrize(
    ("question", "line"),
    [
        ("SELECT y, COUNT(*) FROM t GROUP BY y", "[columns.y] in its schema: step = 0.05"),
        ("SELECT SUM(LENGTH(x)) FROM t GROUP BY y", "[columns.y] in its schema: step = 0.05"),
    ],
)
def test_a_refused_question_names_the_line_to_add(question: str, line: str) -> None:
    with pytest.raises(CallerError) as refusal:
        protected(TREE).query(question, epsilon=1)
    assert line in refusal.value.message
