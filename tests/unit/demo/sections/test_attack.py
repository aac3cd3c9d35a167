"""What an attacker still learns of the town."""

from __future__ import annotations

from sfumato.demo import registers, town
from sfumato.demo.sections import attack, synthesize
from sfumato.demo.town import Town
from sfumato.report.blocks import Heading
from sfumato.report.picture import Picture


def percents(picture: Picture) -> list[float]:
    return [float(str(row[1]).split(" %")[0].removeprefix("below ")) for row in picture.table.rows]


def test_three_tables_in_order_then_classes_then_the_door() -> None:
    people = town.table(2000)
    empty = people.slice(0, 0)
    voters = registers.voters_table(2000)
    shown = Town(people, empty, voters, (), None, synthesize.synthesize_town(people))  # type: ignore[arg-type]
    blocks = attack.section(shown)
    assert blocks[0] == Heading("What an attacker still learns")
    linked, certain, asked = (block for block in blocks if isinstance(block, Picture))
    raw, crowd, twin = percents(linked)
    assert raw > 50 > 20 > crowd >= 0
    assert twin < 20
    assert len(certain.table.rows) == 2
    assert "Most that the guarantee allows" in asked.table.headers
