"""The house has five floors, and a floor imports only floors below it or its own.

Imports for type checking and imports inside functions count: a reader follows them too.
"""

from __future__ import annotations

import ast
import runpy
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"

FLOORS: list[set[str]] = [
    set(packages)
    for _, packages in runpy.run_path(str(ROOT / "docs" / "guide" / "floors.py"))["FLOORS"]
]
"""The ground that everything stands on, then the floors 1 to 5."""

ABOVE_ALL = {"__init__", "__main__", "testing"}
"""The package's own front page, and what users import into their tests."""

EXCEPTIONS = {
    # Attacks on answers ask through the real gatekeeper, so that they attack what analysts meet.
    ("attack/runner.py", "vault.protection"),
}


@cache
def imported_names(path: Path) -> set[str]:
    """Every name that a file imports, at its top, for type checking or inside functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def own_imports(path: Path) -> set[str]:
    """The modules of this package that a file imports, without the leading package name."""
    prefix = "sfumato."
    names = {name for name in imported_names(path) if name.startswith(prefix)}
    return {name.removeprefix(prefix) for name in names} - {"__version__"}


def file_name(path: Path) -> str:
    """The path of a file below the package."""
    return path.relative_to(SOURCE).as_posix()


def first_part(path: Path) -> str:
    """The package on a floor, or the module of the ground, that a file belongs to."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def floor_of(name: str) -> int:
    """The floor of a module by its dotted name."""
    return next(
        (number for number, packages in enumerate(FLOORS) if name.split(".")[0] in packages),
        len(FLOORS),
    )


def upward_imports(paths: list[Path]) -> set[tuple[str, str]]:
    """Each import of a higher floor: the file that has it, and the module it names."""
    return {
        (file_name(path), name)
        for path in paths
        if first_part(path) not in ABOVE_ALL
        for name in own_imports(path)
        if floor_of(name) > floor_of(first_part(path))
    }


def test_no_module_imports_a_higher_floor() -> None:
    found = upward_imports(sorted(SOURCE.rglob("*.py")))
    excused = {
        (file, name)
        for file, name in found
        if any(file == where and name.startswith(module) for where, module in EXCEPTIONS)
    }
    assert found - excused == set()
    assert len(excused) == len(EXCEPTIONS), "an exception that nothing needs any more"


def test_every_package_is_on_a_floor() -> None:
    packages = {first_part(path) for path in SOURCE.rglob("*.py")} - ABOVE_ALL
    assert packages == set().union(*FLOORS)


def test_the_check_finds_an_upward_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(globals(), "SOURCE", tmp_path)
    module = tmp_path / "data" / "table.py"
    module.parent.mkdir()
    module.write_text(
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sfumato.vault import vault\n"
    )
    assert upward_imports([module]) == {("data/table.py", "vault.vault")}


def test_nothing_in_the_package_imports_testing() -> None:
    users = [
        file_name(path)
        for path in SOURCE.rglob("*.py")
        if first_part(path) != "testing"
        and any(name.split(".")[0] == "testing" for name in own_imports(path))
    ]
    assert users == []


HOMES: dict[str, set[str]] = {
    "jinja2": {"report/page.py", "console/rendering.py"},
    "pyspark": {"data/engines/spark/"},
    "adbc_driver_postgresql": {"data/engines/postgres.py"},
    "dp_accounting": {"privacy/accounting/loss_distributions.py"},
    "pandas": {"release/release.py"},
    "starlette": {"server/", "console/"},
    "argon2": {"console/sign_in.py"},
    "uvicorn": {"server/"},
    "polars": {"release/release.py"},
    "networkx": {"methods/graph/"},
    "scipy": {"methods/graph/"},
    "sklearn": {
        "vault/estimators.py",
        "methods/programs/templates/estimator.py",
        "attack/evaluation/learning.py",
    },
    "threadpoolctl": {"attack/evaluation/learning.py"},
}
"""Where each dependency that not everybody needs may be imported."""


@pytest.mark.parametrize("module", sorted(HOMES))
def test_an_optional_dependency_is_imported_only_in_its_home(module: str) -> None:
    homes = {
        next((home for home in HOMES[module] if file.startswith(home)), file)
        for path in SOURCE.rglob("*.py")
        if first_part(path) != "testing"
        and module in {name.split(".")[0] for name in imported_names(path)}
        for file in [file_name(path)]
    }
    assert homes == HOMES[module]
