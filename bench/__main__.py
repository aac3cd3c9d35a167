"""`make bench`: run every measurement and print one table. Name modules to run only those."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

from rich.console import Console
from rich.table import Table


def modules() -> list[str]:
    """Every measurement beside this file, in order of name."""
    here = Path(__file__).parent
    return sorted(path.stem for path in here.glob("*.py") if not path.stem.startswith("_"))


def main(chosen: list[str]) -> None:
    """Measure and print."""
    console = Console(width=140)
    table = Table(box=None, header_style="bold")
    for title in ("what", "ours", "peer", "theirs", "ratio", "aim"):
        table.add_column(title, justify="left" if title in {"what", "peer", "aim"} else "right")
    for name in chosen or modules():
        with Console(stderr=True).status(name):
            for row in import_module(f"bench.{name}").rows():
                table.add_row(*_cells(row))
    console.print(table)


def _cells(row: dict[str, object]) -> list[str]:
    """One line: value and unit, the peer's beside it, the ratio, the aim."""
    ours, theirs = row["value"], row.get("peer_value")
    assert isinstance(ours, int | float)
    ratio = f"{theirs / ours:.2f} x" if isinstance(theirs, int | float) and ours else ""
    return [
        str(row["name"]),
        f"{ours:,.4g} {row['unit']}",
        str(row.get("peer") or ""),
        f"{theirs:,.4g}" if isinstance(theirs, int | float) else str(theirs or ""),
        ratio,
        str(row.get("wanted") or ""),
    ]


if __name__ == "__main__":
    main(sys.argv[1:])
