"""Writes paths.svg: twins of the made-up town by epsilon, from the table of paths.md."""

from __future__ import annotations

import re
import sys
from pathlib import Path

from sfumato.report.points import Point, draw_lines

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_suffix(".svg")
FIGURES = {"trips": 1, "distance gone": 2}

if __name__ == "__main__":
    text = PICTURE.with_suffix(".md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| town \| ([\d.]+) \| (\S+) \| (.*) \|$", text, re.MULTILINE)
    points = [
        Point(f"{figure}, {model}", float(epsilon), float(cells.split(" | ")[place].split(" ")[0]))
        for figure, place in FIGURES.items()
        for epsilon, model, cells in rows
    ]
    drawn = draw_lines(
        points,
        label="Twins of 100,000 made-up paths: how far trips and distances diverge",
        x="epsilon",
        y="divergence",
        series="Figure",
        logarithmic=True,
    )
    PICTURE.write_text(drawn.svg + "\n", encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
