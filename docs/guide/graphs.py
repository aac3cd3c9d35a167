"""Writes graphs.svg: made-up graphs against Chung-Lu by epsilon, from the table of graphs.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sfumato.report.points import Point, draw_lines

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_suffix(".svg")
MEASURES = ("degrees", "clustering", "ties")

if __name__ == "__main__":
    text = PICTURE.with_suffix(".md").read_text(encoding="utf-8")
    found = re.findall(
        r"^\| ([\d.]+) \|" + r" ([\d.]+) / ([\d.]+) \|" * 3 + "$", text, re.MULTILINE
    )
    points = [
        Point(f"{measure}, {who}", float(row[0]), float(row[1 + 2 * place + side]))
        for place, measure in enumerate(MEASURES)
        for side, who in enumerate(("twin", "Chung-Lu"))
        for row in found
    ]
    drawn = draw_lines(
        points,
        label="Made-up graphs of lastfm_asia: how far from the data",
        x="epsilon",
        y="distance",
        series="Measure",
        logarithmic=True,
    )
    PICTURE.write_text(drawn.svg + "\n", encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
