"""The twin of the town: the same form, nobody's rows, and both sides in every picture."""

from __future__ import annotations

from sfumato.demo import town
from sfumato.demo.sections import synthesize
from sfumato.demo.town import Town
from sfumato.report.blocks import Heading, KeyFigures
from sfumato.report.picture import Picture


def test_a_twin_beside_its_town() -> None:
    people = town.table(2000)
    twin = synthesize.synthesize_town(people)
    assert twin.schema.equals(people.schema)
    assert set(twin["ssn"].to_pylist()).isdisjoint(people["ssn"].to_pylist())
    empty = people.slice(0, 0)
    shown = Town(people, empty, empty, (), None, twin)  # type: ignore[arg-type]
    blocks = synthesize.section(shown)
    assert isinstance(blocks[0], Heading)
    [figures] = [block for block in blocks if isinstance(block, KeyFigures)]
    assert len(figures.figures) == 3
    pictures = [block for block in blocks if isinstance(block, Picture)]
    assert [block.label.partition(":")[0] for block in pictures[:3]] == [
        "birth_date",
        "salary",
        "disease",
    ]
    assert len(pictures) == 5
    counts = [int(str(row[2]).replace(",", "")) for row in pictures[3].table.rows]
    assert sum(counts) == people["disease"].drop_null().length()
