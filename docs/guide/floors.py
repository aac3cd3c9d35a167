"""Draw floors.svg: the five floors of the package, and the packages on each.

`FLOORS` is the one table of floors; tests/meta/test_floors.py checks every import against it.
"""

from __future__ import annotations

from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
PICTURE = Path(__file__).with_suffix(".svg")

FLOORS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "Ground",
        (
            *("errors", "arguments", "arrays", "exact_numbers", "text"),
            *("filesystem", "write_journal", "platform_support"),
        ),
    ),
    ("1  Tables as they are", ("data", "report")),
    ("2  Privacy mathematics", ("privacy",)),
    ("3  Methods and releases", ("methods", "anonymize", "attack", "release")),
    ("4  The vault", ("vault", "operations")),
    ("5  Doors", ("cli", "server", "client", "console", "demo")),
)
"""From the ground up. A floor imports only floors below it, or its own."""

SPREAD = ("data", "privacy", "methods")
"""Packages whose own packages are drawn one by one."""

WIDTH, MARGIN, TITLE_WIDTH = 980, 16, 200
BOX_HEIGHT, GAP, FLOOR_PADDING = 34, 10, 14
LETTER_WIDTH = 8.4


def boxes(packages: tuple[str, ...]) -> list[str]:
    """The names that stand in the boxes of a floor."""
    names = []
    for package in packages:
        folder = SOURCE / package
        if not folder.is_dir():
            names.append(f"{package}.py")
        elif package in SPREAD:
            inner = sorted(one.parent.name for one in folder.glob("*/__init__.py"))
            names += [f"{package}/{name}" for name in inner]
        else:
            names.append(f"{package}/")
    return names


def picture() -> str:
    """Draw the floors as SVG, the highest at the top."""
    drawn, y = [], float(MARGIN)
    for title, packages in reversed(FLOORS):
        rows, x = [], 0.0
        for name in boxes(packages):
            width = LETTER_WIDTH * len(name) + 20
            if not rows or x + width > WIDTH - TITLE_WIDTH - 2 * MARGIN:
                rows.append([])
                x = 0.0
            rows[-1].append((name, x, width))
            x += width + GAP
        height = len(rows) * (BOX_HEIGHT + GAP) - GAP + 2 * FLOOR_PADDING
        drawn.append(
            f'<rect x="{MARGIN}" y="{y:g}" width="{WIDTH - 2 * MARGIN}" height="{height:g}" '
            'rx="8" fill="#f6f1e6" stroke="#cbbd9f"/>'
            f'<text x="{MARGIN + 14}" y="{y + height / 2 + 5:g}" fill="#3d3424" '
            f'font-weight="bold">{title}</text>'
        )
        for number, row in enumerate(rows):
            top = y + FLOOR_PADDING + number * (BOX_HEIGHT + GAP)
            drawn += [_box(name, TITLE_WIDTH + MARGIN + x, top, width) for name, x, width in row]
        y += height + GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {y - GAP + MARGIN:g}" '
        f'width="{WIDTH}" height="{y - GAP + MARGIN:g}" font-family="sans-serif" font-size="14">\n'
        '<rect width="100%" height="100%" fill="#fbf9f4"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _box(name: str, x: float, y: float, width: float) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{BOX_HEIGHT}" rx="6" '
        'fill="#e9dfc9" stroke="#8a7a62"/>'
        f'<text x="{x + width / 2:g}" y="{y + BOX_HEIGHT / 2 + 5:g}" text-anchor="middle" '
        f'fill="#3d3424">{name}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
