"""Writes town.svg, the picture of the README: one map in shades of privacy."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

from sfumato.demo.registers import HOMES
from sfumato.demo.sections.publish import EPSILONS, homes, homes_map
from sfumato.demo.town import TOWN_SIZE
from sfumato.release.open_table import read

PICTURE = Path(__file__).with_suffix(".svg")

if __name__ == "__main__":
    table, truth = homes(TOWN_SIZE)
    with closing(read(table, HOMES)) as opened:
        PICTURE.write_text(homes_map(opened, truth, EPSILONS[:3]).svg + "\n", encoding="utf-8")
    sys.stdout.write(f"{PICTURE.name}\n")
