"""Pages about tables that were attacked, inspected or measured."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from tests.unit.attack.test_page import FOUND, LINK
from tests.unit.release.test_page_parts import ORDER, headings

import sfumato as sf
from sfumato.attack.inspection_pages import attack_page, inspection_page, measure_page

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = sf.Schema(
    "people",
    (
        sf.Column("age", sf.Kind.INTEGER, sf.Role.QUASI, sf.Bounds(0, 99), sf.Widths((5, 20))),
        sf.Column("ill", sf.Kind.TEXT, sf.Role.SENSITIVE, sf.Values(("flu", "none"))),
    ),
)
PEOPLE = [{"age": n % 50, "ill": "flu" if n % 3 else "none"} for n in range(200)]


def in_order(page: str) -> bool:
    places = [ORDER.index(one) for one in headings(page)]
    return places == sorted(places) and len(places) > 4


def test_attacks_are_told_with_the_file_and_without_people(tmp_path: Path) -> None:
    release = tmp_path / "safe.csv"
    release.write_text("age\n1\n")
    page = attack_page(FOUND, str(release), "sfumato attack all safe.csv")
    assert in_order(page)
    assert "1 of 2 attackers" in page
    assert sha256(b"age\n1\n").hexdigest() in page.replace("<wbr>", "")
    assert "sfumato attack all safe.csv" in page
    assert "Lovelace" not in page
    one = attack_page(LINK, "postgresql://me:s3cret@host/db#safe", "sfumato attack link")
    assert "s3cret" not in one
    assert "People whose released row is found: 90.0" in one


def test_a_table_as_it_is_says_who_stands_out() -> None:
    with sf.read(PEOPLE, SCHEMA) as people:
        page = inspection_page(people.inspect(), "people.csv", "sfumato inspect people.csv")
    assert in_order(page)
    assert "0\u00a0% of rows are unique in age." in page
    assert "Nothing: this is the table as it is." in page
    assert "Sensitive facts are in ill." in page
    assert "Prosecutor" in page


def test_measures_are_told_in_words() -> None:
    with sf.read(PEOPLE, SCHEMA) as people:
        found = people.measure().json()
    page = measure_page(found, "safe.csv", "sfumato measure safe.csv")
    assert in_order(page)
    assert f"look alike has at least {found['k']}." in page
    assert "recursive c" in page
    assert "l = 2:" in page
