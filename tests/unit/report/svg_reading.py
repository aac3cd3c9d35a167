"""Reading drawings back: their marks by class, their words with the room that they take."""

from __future__ import annotations

import re
from typing import NamedTuple
from xml.etree import ElementTree as ET

from sfumato.report.drawing import text_width

_TURNED = re.compile(r"rotate\(-90 ")
_RECTANGLE = re.compile(r"M(\S+) (\S+)h(\S+?)v(\S+?)h\S+?z")


class Word(NamedTuple):
    """Words of a drawing and the box around them."""

    text: str
    left: float
    top: float
    right: float
    bottom: float


def marks(svg: str, kind: str) -> list[ET.Element]:
    """The elements that have a class."""
    return [one for one in ET.fromstring(svg).iter() if kind in one.get("class", "").split()]


def words(svg: str) -> list[Word]:
    """All words with their boxes, wide as in the widest face."""
    found = []
    for one in ET.fromstring(svg).iter():
        if not one.tag.endswith("text"):
            continue
        text = "".join([one.text or "", *(child.tail or "" for child in one)])
        size = 12 if one.get("class") == "tick" else 13
        length = text_width(text, size)
        x, y = float(one.attrib["x"]), float(one.attrib["y"])
        back = {"start": 0.0, "middle": length / 2, "end": length}[one.get("text-anchor", "start")]
        if _TURNED.match(one.get("transform", "")):
            found.append(Word(text, x - size, y - length + back, x + 3, y + back))
        else:
            found.append(Word(text, x - back, y - size + 2, x - back + length, y + 3))
    return found


def rectangles(svg: str, kind: str) -> list[tuple[float, ...]]:
    """The rectangles in the shapes of a class: x, y, width and height."""
    shapes = (one.get("d", "") for one in marks(svg, kind))
    return [tuple(map(float, one)) for shape in shapes for one in _RECTANGLE.findall(shape)]


def assert_readable(svg: str) -> None:
    """No word is cut by the edge of the drawing, and no two lie on each other."""
    root = ET.fromstring(svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    found = words(svg)
    for one in found:
        assert one.left >= -1, one
        assert one.right <= width + 1, one
        assert one.top >= -1, one
        assert one.bottom <= height + 1, one
    for place, one in enumerate(found):
        for other in found[place + 1 :]:
            apart = (
                one.right <= other.left
                or other.right <= one.left
                or one.bottom <= other.top
                or other.bottom <= one.top
            )
            assert apart, (one, other)
