"""A picture that stands alone."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import pytest
from tests.unit.report.svg_reading import assert_readable, words

from sfumato.errors import OutputError
from sfumato.report.bars import Bar, draw_bars

if TYPE_CHECKING:
    from pathlib import Path

PICTURE = draw_bars(
    [Bar("a < b", 3, 1, 5), Bar("c", -1, -3, 1)],
    label='Rows "of" each <name>, and a label that is long enough to need more than one line of it',
    category="Name",
    value="Count",
)


def test_it_has_its_own_style_title_and_description() -> None:
    root = ET.fromstring(PICTURE.svg)
    texts = {one.tag.rpartition("}")[2]: one.text or "" for one in root}
    assert texts["title"] == PICTURE.label
    assert "a < b 3 ± 2" in texts["desc"]
    assert "prefers-color-scheme:dark" in texts["style"]
    assert root.attrib["role"] == "img"


def test_it_asks_for_nothing_and_runs_nothing() -> None:
    root = ET.fromstring(PICTURE.svg)
    assert not [one for one in root.iter() if one.tag.endswith(("script", "image", "use"))]
    assert not [key for one in root.iter() for key in one.attrib if "href" in key or key == "style"]


def test_its_words_are_whole() -> None:
    assert_readable(PICTURE.draw(640))
    said = " ".join(word.text for word in words(PICTURE.svg))
    assert PICTURE.label in said
    assert PICTURE.note in said


def test_the_same_figures_are_the_same_bytes() -> None:
    again = draw_bars(
        [Bar("a < b", 3, 1, 5), Bar("c", -1, -3, 1)],
        label=PICTURE.label,
        category="Name",
        value="Count",
    )
    assert again.svg == PICTURE.svg
    assert again == PICTURE


def test_a_notebook_shows_it_and_keeps_its_style_apart() -> None:
    html = PICTURE._repr_html_()
    found = re.fullmatch(r'<img alt="([^"]*)" src="data:image/svg\+xml;base64,([^"]+)">', html)
    assert found
    assert found[1].startswith("Rows &quot;of&quot; each &lt;name&gt;")
    assert b64decode(found[2]).decode() == PICTURE.svg


def test_it_is_saved_as_svg_alone(tmp_path: Path) -> None:
    PICTURE.save(tmp_path / "counts.svg")
    assert (tmp_path / "counts.svg").read_text(encoding="utf-8") == PICTURE.svg + "\n"
    with pytest.raises(OutputError) as caught:
        PICTURE.save(tmp_path / "counts.svg")
    assert caught.value.code == "output_exists"
    with pytest.raises(OutputError) as caught:
        PICTURE.save(tmp_path / "counts.png")
    assert caught.value.code == "format_unknown"
