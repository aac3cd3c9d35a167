"""Write doors.md: every operation by every door, with the test that covers each cell.

The operations are read from their table, the tests from `tests/contract/doors/operation_cells.py`.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # where tests are
PAGE = Path(__file__).with_suffix(".md")
HEAD = """# Operations and doors

Written by `make reference` from the table of operations and from
`tests/contract/doors/operation_cells.py`. For every operation and every door a test shows that it
works, that a refusal changes nothing, that bad input is refused by its field, and that it is not
there for people without permission. A number names the test below, which for a page that the
console has instead of a generated form walks through the page. A letter stands for a cell that
cannot be: a) the door does not offer the operation, b) whoever has the folder is its owner,
c) there is nothing to refuse, d) there is nothing to fill in.

"""
LETTERS = {
    "not offered": "a",
    "the folder is the permission": "b",
    "nothing to refuse": "c",
    "nothing to fill in": "d",
}


def page() -> str:
    """The whole page."""
    from tests.contract.doors.operation_cells import (
        ASPECTS,
        DOORS,
        covering_test,
        operations,
        why_not,
    )

    numbers: dict[str, int] = {}
    lines = [
        f"Each cell has four places: {', '.join(ASPECTS)}.",
        "",
        "| operation | " + " | ".join(DOORS) + " |",
        "|---" * (1 + len(DOORS)) + "|",
    ]
    for name, operation in operations().items():
        row = []
        for door in DOORS:
            cell = []
            for aspect in ASPECTS:
                reason = why_not(operation, door, aspect)
                if reason is not None:
                    cell.append(LETTERS[reason])
                    continue
                test = covering_test(operation, door, aspect)
                cell.append(str(numbers.setdefault(test, len(numbers) + 1)))
            row.append("a" if set(cell) == {"a"} else " ".join(cell))
        lines.append(f"| `{name}` | " + " | ".join(row) + " |")
    lines += ["", "| number | test |", "|---|---|"]
    lines += [f"| {number} | `{test}` |" for test, number in numbers.items()]
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
