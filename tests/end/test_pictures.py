"""Pictures of releases in a real browser: they show something, in light and dark, on any screen.

No two screenshots are compared: what is tested is what an eye needs.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from tests.end.browsing import (
    SCREENS,
    luminance,
    needs_chromium,
    open_page,
    pixels,
    words_at_fault,
    worst_contrast,
)

import sfumato as sf
from sfumato.attack.comparison.page import page as comparison_page
from sfumato.attack.comparison.result import Candidate, Comparison
from sfumato.attack.comparison.utility import Utility
from sfumato.attack.finding import Findings
from sfumato.attack.inspection_pages import attack_page, inspection_page, measure_page
from sfumato.attack.runner import attack
from sfumato.demo import town
from sfumato.demo.registers import HOMES, homes_table, visits_table
from sfumato.demo.town import table as town_table
from sfumato.release.page import page as release_page
from sfumato.release.plots import pictures_of
from sfumato.release.release import on_demand
from sfumato.report.blocks import PageTable
from sfumato.report.page import render

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray
    from playwright.sync_api import Browser, Locator, Page

    from sfumato.release.release import Release

pytestmark = needs_chromium
PEOPLE, MAPPED = 4000, 20_000
MAPS = ("privtree", "quadtree", "histogram")


def declared(table: pa.Table, *names: str) -> sf.Table:
    """Some columns of a made-up table, their values and bounds declared."""
    columns = []
    for name in names:
        values = table[name].unique().to_pylist()
        if isinstance(values[0], str):
            column = sf.Column(name, sf.Kind.TEXT, domain=sf.Values(tuple(sorted(values))))
        else:
            column = sf.Column(name, sf.Kind.DATE, domain=sf.Bounds(min(values), max(values)))
        columns.append(column)
    return sf.read(table.select(list(names)), schema=sf.Schema("town", tuple(columns)))


def releases() -> dict[str, Release]:
    """One release for each form of picture."""
    homes = sf.read(homes_table(MAPPED), schema=HOMES)
    visits = visits_table(PEOPLE)
    people = town_table(PEOPLE)
    names = ("sex", "race", "marital_status", "education")
    made: dict[str, Release] = {
        kind: sf.protect(homes, epsilon=1).publish(kind, columns=["east", "north"], epsilon=1)
        for kind in MAPS
    }
    days = sf.protect(declared(visits, "day", "department"), epsilon=4, delta=1e-6)
    made["days"] = days.publish("histogram", columns=["day"], epsilon=1)
    made["running"] = days.publish("continual", columns=["day"], epsilon=1)
    made["noisy"] = days.publish("histogram", columns=["department"], epsilon="0.001")
    made["squares"] = days.publish("histogram", columns=["day", "department"], epsilon=1)
    private = sf.protect(declared(people, *names), epsilon=2)
    made["marginals"] = private.publish("marginals", columns=names, epsilon=1, way=2)
    return made


def owners_pages() -> dict[str, str]:
    """A page of each door that looks at people: for the holder, and for whoever gets a release."""
    people = town_table(PEOPLE)
    schema = str(Path(town.__file__).with_name("town.toml"))
    with sf.read(people, schema) as table:
        release = table.anonymize(k=5, suppress="0.05")
        holder = release_page(release, beside=on_demand(release.tables).beside())
        tried = [
            attack(name, release.table, schema, original=people) for name in ("link", "homogeneity")
        ]
        found = Findings(tuple(tried), {"definetti": "the release is no anatomy."})  # type: ignore[arg-type]
        candidates = tuple(
            Candidate(name, f"{name}.csv", "rows", found, k=5, utility=kept)
            for name, kept in (
                ("safe", Utility(0.75, 0.7, 0.8, 0.1, 0.3, 0.02, 45)),
                ("a table with a long name", Utility(0.76, 0.7, 0.8, 0.1, 0.3, 0.02, 45)),
                ("twin", Utility(1.0, 0.98, 1.0, 0.1, 0.1, 0.01, 45)),
            )
        )
        return {
            "compared": comparison_page(Comparison(candidates, PEOPLE, ("age", "sex"))),
            "holder": holder,
            "receiver": release_page(release.public, files={"safe.csv": "ab" * 32}),
            "attacked": attack_page(found, "safe.csv", "sfumato attack all safe.csv"),
            "inspected": inspection_page(table.inspect(), "town.csv", "sfumato inspect town.csv"),
            "measured": measure_page(table.measure().json(), "town.csv", "sfumato measure"),
        }


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    made = releases()
    pages = {name: release_page(one) for name, one in made.items()} | owners_pages()
    headers = [f"a_long_column_name_{n}" for n in range(20)]
    wide = PageTable("Wide", headers, [["some value"] * 20])
    pages["wide"] = render("A wide table", [wide], lead="", footer="")
    found = {}
    for name, html in pages.items():
        found[name] = folder / f"{name}.html"
        found[name].write_text(html, encoding="utf-8")
    for name in ("privtree", "noisy"):
        found[f"{name} alone"] = folder / f"{name}.svg"
        pictures_of(made[name])[0].save(folder / f"{name}.svg")
    return found


@pytest.fixture(
    scope="module",
    params=[
        # Either light with either size, and all four in `slow`.
        pytest.param(one, marks=[] if one in ("light 1280", "dark 390") else [pytest.mark.slow])
        for one in SCREENS
    ],
)
def page(request: pytest.FixtureRequest, browser: Browser) -> Iterator[Page]:
    opened = open_page(browser, request.param)
    yield opened
    opened.context.close()


def shown(page: Page) -> Locator:
    """The first drawing that is seen."""
    return page.locator("svg.picture:visible").first


def is_dark(page: Page) -> bool:
    return bool(page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches"))


def test_every_page_reads_well_on_this_screen(page: Page, files: dict[str, Path]) -> None:
    """Nothing reaches beyond the screen, no words are cut or lie on others, all have contrast."""
    said: list[str] = []
    page.on("console", lambda one: said.append(one.text))
    page.on("request", lambda one: said.append(one.url))
    for name, path in files.items():
        if path.suffix != ".html":
            continue
        said.clear()
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert said == [path.as_uri()], name
        whole, seen = page.evaluate(
            "[document.documentElement.scrollWidth, document.documentElement.clientWidth]"
        )
        assert whole <= seen, name
        assert words_at_fault(page) == [], name
        worst = worst_contrast(page)
        assert 4.5 <= worst["ratio"] <= 21, (name, worst)


def test_a_page_is_walked_through_with_the_keyboard(page: Page, files: dict[str, Path]) -> None:
    """First past the contents, then what scrolls and what opens, each with a ring around it."""
    page.goto(files["holder"].as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    assert page.locator(".skip").bounding_box()["y"] >= 0  # type: ignore[index]
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    met = []
    for _ in range(12):
        page.keyboard.press("Tab")
        met.append(
            page.evaluate("document.activeElement.className || document.activeElement.tagName")
        )
        ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert ring == "solid", met
    assert met[0] == "scroll"
    assert "SUMMARY" in met


def shades_of(page: Page) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """The pixels of the first drawing, and the colours of its legend from few to many."""
    drawing = shown(page)
    image = pixels(page, drawing.screenshot())
    whole = drawing.bounding_box()
    assert whole
    colours = []
    for swatch in drawing.locator(".swatch").all():
        box = swatch.bounding_box()
        assert box
        row = round(box["y"] - whole["y"] + box["height"] / 2)
        column = round(box["x"] - whole["x"] + box["width"] / 2)
        colours.append(image[row, column])
    return image, np.array(colours)


@pytest.mark.parametrize("name", [*MAPS, "squares"])
def test_a_map_shows_where_many_are(page: Page, files: dict[str, Path], name: str) -> None:
    """More is darker on a light page and brighter on a dark one, and no shade is all there is."""
    page.goto(files[name].as_uri())
    image, colours = shades_of(page)
    assert 3 <= len(colours) <= 6
    bright = luminance(colours)
    steps = [after - before for before, after in pairwise(bright)]
    assert all(step > 0.02 for step in steps) if is_dark(page) else all(s < -0.02 for s in steps)
    ground = luminance(image[0, 0])
    assert abs(bright[0] - ground) < 0.15
    painted = [(image == colour).all(axis=2).mean() for colour in colours]
    assert all(share > 0 for share in painted), painted
    assert sum(painted[1:]) > 0.08, painted
    assert sorted(painted[1:])[-3] > 0.005, painted


def test_the_town_is_where_its_people_live(page: Page, files: dict[str, Path]) -> None:
    """The fullest shade lies where most of them are: by twenty deviations of the noise."""
    homes = homes_table(MAPPED)
    east, north = (np.asarray(homes[one]) for one in ("east", "north"))
    cells = np.zeros((64, 64))
    np.add.at(cells, (63 - north, east), 1)
    row, column = np.unravel_index(cells.argmax(), cells.shape)
    page.goto(files["quadtree"].as_uri())
    image, colours = shades_of(page)
    inner = shown(page).locator("svg").first.bounding_box()
    outer = shown(page).bounding_box()
    assert inner
    assert outer
    at = (
        round(inner["y"] - outer["y"] + (row + 0.5) * inner["height"] / 64),
        round(inner["x"] - outer["x"] + (column + 0.5) * inner["width"] / 64),
    )
    assert (image[at] == colours[-1]).all()


def test_bars_have_errors_that_are_seen(page: Page, files: dict[str, Path]) -> None:
    """Noise of this size hides everything: lines longer than most bars, on both sides of zero."""
    page.goto(files["noisy"].as_uri())
    lines = shown(page).locator(".whisker").all()
    assert len(lines) >= 10
    zero = {round(one.bounding_box()["x"]) for one in shown(page).locator("line.axis").all()}  # type: ignore[index]
    assert len(zero) == 1
    for one in lines[:3]:
        box = one.bounding_box()
        assert box
        assert box["width"] > 60
        assert box["height"] >= 5
    ink = page.evaluate("getComputedStyle(document.body).color")
    assert lines[0].evaluate("one => getComputedStyle(one).stroke") == ink


def test_every_table_of_marginals_has_its_picture(page: Page, files: dict[str, Path]) -> None:
    page.goto(files["marginals"].as_uri())
    released = page.locator("#what-was-released")
    assert released.locator("h3").count() == 6
    assert page.locator("figure svg.picture:visible").count() == 6


def test_a_wide_table_scrolls_in_its_own_box(page: Page, files: dict[str, Path]) -> None:
    page.goto(files["wide"].as_uri())
    inside, seen = page.locator(".scroll").evaluate("one => [one.scrollWidth, one.clientWidth]")
    assert inside > seen


@pytest.mark.parametrize("name", ["privtree alone", "noisy alone"])
def test_a_lone_picture_has_its_own_ground(page: Page, files: dict[str, Path], name: str) -> None:
    page.goto(files[name].as_uri())
    image = pixels(page, page.screenshot())
    ground = float(luminance(image[2, 2]))
    assert ground < 0.05 if is_dark(page) else ground > 0.85
    assert len(np.unique(image.astype(np.int64) @ [1, 256, 65536])) > 12
