from __future__ import annotations

import re
from math import comb
from typing import TYPE_CHECKING, Any

import pyarrow.csv as arrow_csv
import pyarrow.parquet as arrow_parquet
import pytest

from sfumato.demo import page, town
from sfumato.demo.page import BESIDE, PAGE, TABLES, run
from sfumato.demo.sections import SECTIONS
from sfumato.errors import OutputError

if TYPE_CHECKING:
    from pathlib import Path

PEOPLE = 3000


def silent(_steps_done: float, _total: float) -> None:
    """Take no notice of progress."""


@pytest.fixture(scope="session")
def written(demo: tuple[Path, Any]) -> Path:
    return demo[0]


def test_the_page_and_the_files_that_it_names(written: Path) -> None:
    assert {path.name for path in written.iterdir()} == {PAGE, *BESIDE}
    page = (written / PAGE).read_text("utf-8")
    assert set(re.findall(r'<li><a href="([^#"]+)">', page)) == set(BESIDE)


def test_files_hold_the_town(written: Path) -> None:
    assert arrow_parquet.read_table(written / "town.parquet").equals(town.table(town.TOWN_SIZE))
    rows = arrow_csv.read_csv(written / "town.csv")
    assert rows.num_rows == town.TOWN_SIZE
    assert rows.column_names == town.SCHEMA.names
    assert (written / "town.csv").read_text("utf-8").splitlines()[1].count('"') == 0


def test_figures_on_the_page_are_those_of_the_town(written: Path) -> None:
    page = (written / PAGE).read_text("utf-8").replace("\u00a0", " ")
    groups = (
        town.table(town.TOWN_SIZE)
        .group_by(["birth_date", "sex", "zip"])
        .aggregate([([], "count_all")])
    )
    alone = groups["count_all"].to_pylist().count(1)
    assert f'<p class="figure">{100 * alone / town.TOWN_SIZE:.0f} %</p>' in page
    sets = sum(comb(7, size) for size in range(1, 5)) + 1
    assert f"for each of {sets} sets of columns" in page


def test_roles_are_guessed_with_reasons_and_confirmed(written: Path) -> None:
    page = (written / PAGE).read_text("utf-8")
    row = re.search(r"<tr><td>birth_date</td>(.*?)</tr>", page)
    assert row
    guess, why, confirmed = re.findall(r"<td>(.*?)</td>", row[1])
    assert (guess, confirmed) == ("quasi", "quasi")
    assert "birth date" in why


def test_linking_counts_rows_that_match_exactly_one_voter(written: Path) -> None:
    voters = arrow_csv.read_csv(written / "voters.csv").to_pylist()
    people = arrow_csv.read_csv(written / "town.csv").to_pylist()
    named: dict[tuple[object, ...], list[str]] = {}
    for voter in voters:
        named.setdefault((voter["birth_date"], voter["sex"], voter["zip"]), []).append(
            voter["name"]
        )
    hits = [
        (person["name"], names[0])
        for person in people
        if len(names := named.get((person["birth_date"], person["sex"], person["zip"]), [])) == 1
    ]
    right = sum(one == other for one, other in hits)
    page = (written / PAGE).read_text("utf-8").replace("\u00a0", " ")
    assert f"<dd>{len(hits):,}</dd>" in page
    assert f"<dt>of these names are right</dt><dd>{100 * right / len(hits):.1f} %</dd>" in page


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One section stands for all where it does not matter what the page tells."""
    monkeypatch.setattr(page, "SECTIONS", SECTIONS[:1])


@pytest.mark.usefixtures("_quick")
def test_an_earlier_demo_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    written = tmp_path / "demo"
    run(written, silent, people=PEOPLE)
    (written / "mine.txt").write_text("mine")
    before = (written / PAGE).stat().st_ino
    paths = run(written, silent, people=PEOPLE)
    assert (written / PAGE).stat().st_ino != before  # a new page: its noise is fresh
    assert (written / "mine.txt").read_text() == "mine"
    assert paths == [written / PAGE, *(written / name for name in BESIDE)]


@pytest.mark.parametrize("name", [PAGE, "town.csv"])
def test_a_stranger_s_file_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("<html>mine</html>")
    with pytest.raises(OutputError) as caught:
        run(tmp_path, silent, people=PEOPLE)
    assert caught.value.code == "output_exists"
    assert caught.value.message == (
        f"Cannot write the demo to '{tmp_path}': '{name}' there is not from an earlier demo. "
        "Choose another directory with --out."
    )
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_in_place_of_the_directory_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.write_text("mine")
    with pytest.raises(OutputError) as caught:
        run(out, silent, people=PEOPLE)
    assert caught.value.code == "output_unwritable"
    assert out.read_text() == "mine"


def interrupt(steps_done: float, _total: float) -> None:
    """Press Ctrl-C when the tables are written."""
    if steps_done == 2:
        raise KeyboardInterrupt


def test_an_interruption_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "out", interrupt, people=PEOPLE)
    assert list(tmp_path.iterdir()) == []


def test_an_interruption_leaves_an_earlier_demo_whole(written: Path) -> None:
    before = {path.name: path.read_bytes() for path in written.iterdir()}
    with pytest.raises(KeyboardInterrupt):
        run(written, interrupt, people=2 * PEOPLE)
    assert {path.name: path.read_bytes() for path in written.iterdir()} == before


@pytest.mark.usefixtures("_quick")
def test_progress_counts_up_to_the_end(tmp_path: Path) -> None:
    seen: list[tuple[float, float]] = []
    run(tmp_path, lambda steps_done, total: seen.append((steps_done, total)), people=PEOPLE)
    assert [steps_done for steps_done, _ in seen] == list(range(int(seen[-1][1]) + 1))


def test_the_tables_can_be_had_without_the_page(tmp_path: Path) -> None:
    written = run(tmp_path / "town", lambda *_: None, people=PEOPLE, page=False)
    assert sorted(path.name for path in (tmp_path / "town").iterdir()) == sorted(TABLES)
    assert {path.name for path in written} == set(TABLES)
