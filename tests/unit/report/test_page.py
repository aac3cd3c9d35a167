from __future__ import annotations

import re
from base64 import b64encode
from hashlib import sha256
from html.parser import HTMLParser
from importlib.resources import files

import pytest

from sfumato.report.bars import draw_bars, draw_people
from sfumato.report.blocks import (
    Block,
    FileLinks,
    Folded,
    Heading,
    Headline,
    KeyFigures,
    Note,
    PageTable,
    Paragraph,
)
from sfumato.report.page import generator_of, render

EVIL = '<script>alert("1")</script>&\'"'
_CROWD = draw_people(0.5, label=EVIL, inside=EVIL, outside="x")
BLOCKS: list[Block] = [
    Heading(EVIL),
    Paragraph(EVIL),
    Heading(EVIL, level=3),
    Note(EVIL),
    Note(EVIL, warning=True),
    PageTable(EVIL, (EVIL, "b"), [(EVIL, 1)]),
    PageTable(EVIL, (EVIL, "b"), [(EVIL, 1)], folded=True),
    draw_bars([(EVIL, 1)], label=EVIL, category=EVIL, value=EVIL),
    KeyFigures([(EVIL, EVIL)]),
    Headline(EVIL, EVIL, _CROWD),
    Folded(EVIL, [Paragraph(EVIL), PageTable(EVIL, (EVIL, "b"), [(EVIL, 1)])]),
    Heading("Second"),
    FileLinks([(EVIL, EVIL)]),
]
VOID = {"meta"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "id", "aria-label"} | {
    "role",
    "href",
    "scope",
    "tabindex",
}


class Reader(HTMLParser):
    """Notes tags, attributes and text, and that every tag is closed in its turn."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@pytest.fixture(scope="module")
def page() -> str:
    return render(EVIL, BLOCKS, lead=EVIL, footer=EVIL, generator=EVIL)


def test_text_stays_text_everywhere(page: str) -> None:
    reader = Reader(page)
    names = [tag for tag, _ in reader.tags]
    assert "script" not in names
    assert reader.words.count(EVIL) >= 20
    outside_drawings = re.sub(r"<svg .*?</svg>", "", page, flags=re.DOTALL)
    used = {name for _, attributes in Reader(outside_drawings).tags for name in attributes}
    assert used <= ATTRIBUTES


def test_the_page_needs_nothing_from_outside_and_says_so(page: str) -> None:
    for _, attributes in Reader(page).tags:
        assert not {"src", "srcset", "style", "xlink:href", "onload", "onclick"} & set(attributes)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert style
    assert "url(" not in style[1]
    assert "@import" not in style[1]
    digest = b64encode(sha256(style[1].encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'sha256-{digest}'" in page


def test_ids_are_used_once(page: str) -> None:
    ids = [attributes["id"] for _, attributes in Reader(page).tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_contents_link_to_the_sections(page: str) -> None:
    tags = Reader(page).tags
    ids = {attributes.get("id") for tag, attributes in tags if tag == "section"}
    links = [attributes["href"] or "" for tag, attributes in tags if tag == "a"]
    assert [link for link in links if link.startswith("#")] == [
        "#main",  # past the contents, for whoever has no mouse
        "#script-alert-1-script",
        "#second",
    ]
    assert {"script-alert-1-script", "second"} == ids


def test_charts_are_said_in_words_and_hidden_as_pictures(page: str) -> None:
    tags = Reader(page).tags
    pictures = [attributes for _, attributes in tags if attributes.get("role") == "img"]
    drawings = [attributes for tag, attributes in tags if tag == "svg"]
    assert len(pictures) == len(drawings) == 3
    assert all(one["aria-label"] == EVIL for one in pictures)
    assert all(one["aria-hidden"] == "true" for one in drawings)


def test_numbers_stand_to_the_right_and_codes_do_not() -> None:
    table = PageTable("t", ("a", "b", "c"), [(1234, "53715", "< 0.1 %"), (-1, "00001", "1.5e-07")])
    html = render("t", [table], lead="l", footer="f")
    right = re.findall(r'<th scope="col" class="number">(.)</th>', html)
    assert right == ["a", "c"]
    assert '<td class="number">1,234</td>' in html


def test_a_row_of_the_wrong_length_is_our_mistake() -> None:
    with pytest.raises((ValueError, IndexError)):
        render("t", [PageTable("t", ("a", "b"), [("only one",)])], lead="l", footer="f")


def test_a_page_says_what_made_it() -> None:
    page = render("t", [], lead="l", footer="f", generator="a program")
    assert generator_of(page) == "a program"
    assert generator_of("<html>mine</html>") is None


def test_only_drawings_and_the_style_sheet_are_trusted() -> None:
    templates = files("sfumato.report").joinpath("templates")
    pages = [one.read_text() for one in templates.iterdir() if one.name.endswith(".html")]
    trusted = {one for page in pages for one in re.findall(r"([\w.]+)(?:\([^)]*\))?\|safe", page)}
    assert trusted == {"block.draw", "block.picture.draw", "style"}


def test_drawings_have_no_names_that_two_of_them_could_share() -> None:
    html = render("t", [BLOCKS[7], BLOCKS[7]], lead="l", footer="f")
    assert html.count("<svg ") == 4
    drawn = "".join(re.findall(r"<svg .*?</svg>", html, flags=re.DOTALL))
    assert not re.search(r'\bid="|url\(|href=', drawn)


def test_what_is_folded_stands_under_its_line() -> None:
    html = render("t", [Folded("sex, race", [Paragraph("inside")])], lead="l", footer="f")
    folded = re.search(r"<details class=\"part\">(.*?)</details>", html, re.DOTALL)
    assert folded
    assert "<summary>sex, race</summary>" in folded[1]
    assert "<p>inside</p>" in folded[1]


def test_a_long_word_in_a_table_can_be_broken_and_others_are_left_whole() -> None:
    digest = "0123456789abcdef" * 4
    rows = [("domain", f"<{digest}"), ("columns", "an_unusually_long_name")]
    page = render("t", [PageTable("facts", ("What", "Value"), rows)], lead="", footer="")
    assert "&lt;0123456789abcde<wbr>f0123456789abcde<wbr>" in page
    assert "<td>an_unusually_long_name</td>" in page
    assert page.count("<wbr>") == 3
