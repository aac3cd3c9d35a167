"""Writes local.svg: the error of a count by the number of people, trusted and not, from runs."""

from __future__ import annotations

import sys
from pathlib import Path

from sfumato.methods.local.central_comparison import contrast, picture

ROOT = Path(__file__).parents[2]
PICTURE = Path(__file__).with_suffix(".svg")

if __name__ == "__main__":
    drawn = picture(contrast(["0.1", "1", "2"], [100, 1_000, 10_000, 100_000]))
    PICTURE.write_text(drawn.svg + "\n", encoding="utf-8")
    sys.stdout.write(f"{PICTURE.relative_to(ROOT)}\n")
