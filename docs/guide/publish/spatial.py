"""Writes spatial.svg: how far ranges over a map of ZIP codes are off, by epsilon and method."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from sfumato.report.points import Point, draw_lines

ROOT = Path(__file__).parents[3]
PICTURE = Path(__file__).with_suffix(".svg")
EPSILONS = ("0.05", "0.1", "0.2", "0.5", "1")
SHAPE = "5 x 5"


def picture() -> str:
    """One line for each method; the grid of all declared cells lies far above the page."""
    bench = runpy.run_path(str(ROOT / "bench" / "publish_spatial.py"))
    places = bench["maps"]()["ZIP codes"]
    points = [
        Point(way, float(epsilon), error)
        for epsilon in EPSILONS
        for (way, shape), error in bench["relative_errors"](places, epsilon).items()
        if shape == SHAPE and way != bench["FLAT"]
    ]
    return draw_lines(
        points,
        label="Median relative error of ranges of 5 by 5 degrees over the places of ZIP codes",
        x="epsilon",
        y="median relative error",
        series="published as",
        logarithmic=True,
        percent=True,
    ).svg


if __name__ == "__main__":
    PICTURE.write_text(picture() + "\n", encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
