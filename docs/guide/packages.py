"""Draws packages.svg: which package of Sfumato imports which, read from the source.

A package stands below everything that it imports when it is loaded or type-checked; a line that
follows from two others is left out, and so is what is loaded only when it is asked for.
"""

from __future__ import annotations

import ast
from functools import cache
from html import escape
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"
PICTURE = Path(__file__).with_suffix(".svg")
BOX_WIDTH, BOX_HEIGHT, GAP_ACROSS, GAP_DOWN, MARGIN = 118, 40, 26, 54, 24


def package_of(path: Path) -> str:
    """The package, or the module at the top, that a file belongs to."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def graph() -> dict[str, set[str]]:
    """For each package those that its modules import at their top."""
    found: dict[str, set[str]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        package = package_of(path)
        if package in {"__init__", "__main__", "testing"}:
            continue
        used = found.setdefault(package, set())
        for node in _top(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sfumato"):
                module = (node.module or "").split(".")
                used |= {module[1]} if len(module) > 1 else {alias.name for alias in node.names}
        used -= {package, "__version__"}
    return found


def _top(tree: ast.Module) -> list[ast.stmt]:
    guarded = [one for node in tree.body if isinstance(node, ast.If) for one in node.body]
    return [*tree.body, *guarded]


def layers(imports: dict[str, set[str]]) -> list[list[str]]:
    """The packages by how long a chain of imports below them is."""

    @cache
    def height(package: str) -> int:
        return 1 + max((height(one) for one in imports[package]), default=-1)

    rows: list[list[str]] = [[] for _ in range(1 + max(map(height, imports)))]
    for package in sorted(imports):
        rows[height(package)].append(package)
    return rows


def arrows(imports: dict[str, set[str]]) -> list[tuple[str, str]]:
    """The imports that do not follow from others."""

    @cache
    def below(package: str) -> frozenset[str]:
        return frozenset(imports[package]).union(*(below(one) for one in imports[package]))

    return [
        (package, one)
        for package in sorted(imports)
        for one in sorted(imports[package])
        if not any(one in below(other) for other in imports[package] - {one})
    ]


def picture() -> str:
    """The drawing, as SVG: what everybody stands on is at the top."""
    imports = graph()
    rows = layers(imports)
    width = 2 * MARGIN + max(map(len, rows)) * (BOX_WIDTH + GAP_ACROSS) - GAP_ACROSS
    height = 2 * MARGIN + len(rows) * (BOX_HEIGHT + GAP_DOWN) - GAP_DOWN
    places = {
        package: (
            (width - len(row) * (BOX_WIDTH + GAP_ACROSS) + GAP_ACROSS) / 2
            + place * (BOX_WIDTH + GAP_ACROSS),
            MARGIN + depth * (BOX_HEIGHT + GAP_DOWN),
        )
        for depth, row in enumerate(rows)
        for place, package in enumerate(row)
    }
    drawn = [_arrow(places[package], places[one]) for package, one in arrows(imports)]
    drawn += [_box(package, *place) for package, place in places.items()]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="14">\n'
        '<rect width="100%" height="100%" fill="#fbf9f4"/>\n' + "\n".join(drawn) + "\n</svg>\n"
    )


def _arrow(lower: tuple[float, float], upper: tuple[float, float]) -> str:
    x1, y1 = lower[0] + BOX_WIDTH / 2, lower[1]
    x2, y2 = upper[0] + BOX_WIDTH / 2, upper[1] + BOX_HEIGHT
    bend = (y1 - y2) / 2
    return (
        f'<path d="M{x1:g} {y1:g}C{x1:g} {y1 - bend:g} {x2:g} {y2 + bend:g} {x2:g} {y2:g}" '
        'fill="none" stroke="#8a7a62" stroke-opacity="0.7"/>'
    )


def _box(package: str, x: float, y: float) -> str:
    folder = (SOURCE / package).is_dir()
    fill, name = ("#e9dfc9", f"{package}/") if folder else ("#f6f1e6", f"{package}.py")
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" '
        f'fill="{fill}" stroke="#8a7a62"/>'
        f'<text x="{x + BOX_WIDTH / 2:g}" y="{y + BOX_HEIGHT / 2 + 5:g}" text-anchor="middle" '
        f'fill="#3d3424">{escape(name)}</text>'
    )


if __name__ == "__main__":
    PICTURE.write_text(picture())
