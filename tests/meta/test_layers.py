"""Who may import whom. A package may import itself and what stands in its row; nothing else."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "sfumato"

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "texts": set(),
    "system": {"errors"},
    "given": {"errors"},
    # What an object shows in a notebook is drawn only when one asks.
    "cards": {"given", "report.notebook"},
    "journal": {"system", "texts"},
    "files": {"errors", "journal", "system"},
    "privacy": {"errors", "given"},
    "schema": {"cards", "errors", "given", "privacy.units", "files"},
    "engines": {"errors", "schema", "files", "system", "texts"},
    "counting": {"errors", "schema", "privacy.units", "engines.base", "engines.kinds"},
    # A release can be told to people as a page; the page is loaded only when asked for.
    "release": {
        "cards", "errors", "given", "schema", "files", "journal", "system", "texts",
        "engines.base", "engines.files", "engines.sources", "engines.kinds",
        "counting.hashing",
        "report.release", "report.notebook",
        # What attacks found on it is read off its side-car when asked for.
        "attack.finding",
    },
    "noise": {"errors", "given", "privacy"},
    "ledger": {"errors", "privacy", "noise", "files", "system", "texts"},
    "mechanisms": {"errors", "privacy", "noise"},
    "estimation": set(),
    # Other people's code: nothing of ours is to be seen from where it runs.
    "sandbox": {"errors", "texts"},
    "inspection": {"cards", "errors", "schema", "privacy.units", "engines.base", "counting"},
    "method": {
        "engines.base", "engines.wellformed", "noise.entropy", "privacy", "release", "schema",
    },
    # SQL is read in one place, within one set of limits.
    "anonymize": {
        "cards", "errors", "given", "schema", "release", "noise", "privacy.numbers", "counting",
        "query.sql.parse",
    },
    "attack": {
        "anonymize", "cards", "counting", "engines.base", "errors", "schema",
        "synth.evaluate.copies",
    },
    # A comparison can be told to people as a page; the page is loaded only when asked for.
    "comparison": {
        "anonymize", "attack", "cards", "counting", "errors", "files", "given", "release", "schema",
        "synth.evaluate", "report.comparison",
    },
    "query": {
        "cards", "errors", "given", "schema", "release", "noise", "privacy", "mechanisms", "method",
        "engines.base",
        "engines.kinds", "counting", "estimation",
    },
    # Figures told one after the other; a release of all of them at once uses the same factors.
    # A pan-private counter is its collector's: a file, no ledger and no release.
    "stream": {
        "errors", "files", "given", "mechanisms", "noise", "privacy",
        "schema.names", "system", "texts", "engines.base", "engines.sources", "local.draws",
    },
    "publish": {
        "cards", "errors", "given", "schema", "release", "noise", "privacy", "mechanisms", "method",
        "counting", "estimation", "stream.factors",
    },
    "graph": {
        "engines.kinds", "errors", "estimation.monotone", "schema", "noise", "privacy",
        "mechanisms", "publish.forms", "publish.options",
    },
    "sets": {
        "errors", "given", "schema", "noise", "privacy", "mechanisms", "method", "counting.axes",
        "counting.grouping", "engines.kinds", "publish.forms", "publish.options",
    },
    # An evaluation can be told to people as a page; the page is loaded only when asked for.
    "synth": {
        "cards", "errors", "given", "schema", "files", "engines.base", "engines.kinds",
        "engines.files.spelled", "engines.files.output", "engines.files.regular", "noise",
        "privacy", "mechanisms", "counting", "estimation", "texts", "method", "release",
        "report.evaluation",
        "publish.quantiles", "publish.request",
    },
    "trajectory": {
        "cards", "counting", "engines.base", "errors", "given", "local.planar", "mechanisms",
        "noise", "privacy", "publish.forms", "publish.options", "schema",
    },
    # Estimators ask through the real door, which is opened only when they learn.
    "mining": {
        "cards", "counting", "engines.kinds", "engines.files.regular",
        "engines.frames", "errors", "files", "given", "mechanisms", "method", "noise", "privacy",
        "publish.forms", "publish.options", "release", "schema", "sets", "texts",
        "vault.protection",
    },
    # Other people's programs, which run in the sandbox alone.
    "programs": {
        "cards", "counting", "engines.base", "engines.kinds", "errors", "given", "mechanisms",
        "method", "noise", "privacy", "release", "sandbox", "schema",
    },
    # Reports of clients: no rows of ours are read, so no ledger and no release.
    "local": {
        "cards", "errors", "files", "given", "noise", "privacy", "system", "texts",
        "schema.column", "schema.document", "estimation.trees", "report.contrast", "report.survey",
        "engines.base", "engines.sources", "engines.files.regular",
    },
    "report": {
        "cards", "errors", "given", "schema", "files", "privacy", "release", "inspection",
        "synth.evaluate", "synth.beside", "synth.generator", "texts",
        "attack.finding", "comparison",
        "local.contrasting",
    },
    # Attacks on answers ask through the real door, which is opened only when they do.
    "steward": {
        "cards", "errors", "given", "schema", "privacy", "engines", "files", "counting",
        "inspection", "release", "report", "anonymize", "attack", "comparison", "synth", "mining",
        "noise", "sets", "texts", "trajectory", "vault.protection",
    },
    "vault": {
        "cards", "errors", "given", "schema", "privacy", "engines", "files", "system", "texts",
        "counting",
        "release", "report", "ledger", "method", "anonymize", "query", "publish", "synth",
        "mining", "programs", "sandbox", "steward", "attack.finding", "attack.case", "comparison",
        "noise.entropy", "stream",
    },
    "demo": {
        "errors", "schema", "files", "inspection", "report", "release.in_use", "steward",
        "estimation.boxes", "vault", "attack.case", "attack.finding", "local", "privacy.units",
        "trajectory.generate",
    },
    # A client plans by the same modules as a vault, from what a server declares.
    "gate": {
        "cards", "errors", "files", "given", "local", "method", "privacy.events", "privacy.numbers",
        "privacy.units", "publish.options", "query.sql.tables", "release.codec", "release.release",
        "schema", "steward.table", "steward.declaring", "steward.wishes", "release.in_use",
        "privacy.price", "programs", "report", "texts", "vault",
    },
    "cli": {
        "errors", "schema.names", "files", "texts", "inspection", "report", "release", "steward",
        "vault", "demo", "attack.finding", "comparison", "gate.serving",
        "gate.round_server", "local", "sandbox", "stream.pan_file",
    },
}  # fmt: skip
ANYTHING = {"testing", "__init__", "__main__"}


@cache
def _imported(path: Path) -> set[str]:
    """All that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} uses a relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def imports_of(path: Path) -> set[str]:
    """The modules of this package that a file imports."""
    names = _imported(path)
    return {name.removeprefix("sfumato.") for name in names if name.startswith("sfumato.")}


def package_of(path: Path) -> str:
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def test_modules_import_only_what_their_layer_allows() -> None:
    strays = {
        str(path.relative_to(SOURCE)): sorted(names)
        for path in SOURCE.rglob("*.py")
        if package_of(path) not in ANYTHING and (names := _strays(path))
    }
    assert strays == {}


def _strays(path: Path) -> set[str]:
    package = package_of(path)
    allowed = MAY_IMPORT.get(package, set()) | {package, "__version__"}
    return {name for name in imports_of(path) if not any(_within(name, entry) for entry in allowed)}


def _within(name: str, entry: str) -> bool:
    """Whether a name is that of a package or module, or of something in it."""
    return name == entry or name.startswith(entry + ".")


def test_every_package_has_a_row_and_every_row_a_package() -> None:
    packages = {package_of(path) for path in SOURCE.rglob("*.py")} - ANYTHING
    assert packages == set(MAY_IMPORT)


def test_nothing_is_allowed_that_nobody_needs() -> None:
    used: dict[str, set[str]] = {package: set() for package in MAY_IMPORT}
    for path in SOURCE.rglob("*.py"):
        used.setdefault(package_of(path), set()).update(imports_of(path))
    stale = {
        package: unused
        for package, allowed in MAY_IMPORT.items()
        if (unused := {one for one in allowed if not any(_within(x, one) for x in used[package])})
    }
    assert stale == {}


def test_concrete_engines_and_ledgers_are_named_only_where_they_are_opened() -> None:
    concrete = ("engines.duckdb", "engines.postgres", "engines.spark", "ledger.memory")
    users = {
        package_of(path)
        for path in SOURCE.rglob("*.py")
        for name in imports_of(path)
        if any(_within(name, one) for one in (*concrete, "ledger.sql"))
    }
    assert users <= {"engines", "ledger", "steward", "vault", *ANYTHING}


def test_nothing_in_the_package_imports_testing() -> None:
    users = [
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if package_of(path) != "testing"
        and any(name.split(".")[0] == "testing" for name in imports_of(path))
    ]
    assert users == []


HOMES: dict[str, set[str]] = {
    "jinja2": {"report/page.py", "gate/console/rendering.py"},
    "pyspark": {"engines/spark/"},
    "adbc_driver_postgresql": {"engines/postgres.py"},
    "dp_accounting": {"privacy/loss_distributions.py"},
    "pandas": {"release/release.py"},
    "starlette": {"gate/"},
    "argon2": {"gate/console/passwords.py"},
    "uvicorn": {"gate/"},
    "polars": {"release/release.py"},
    "networkx": {"graph/"},
    "scipy": {"graph/"},
    "sklearn": {
        "mining/estimators.py",
        "programs/templates/estimator.py",
        "synth/evaluate/learning.py",
    },
    "starlark": {"programs/starlark_host.py"},
    "threadpoolctl": {"synth/evaluate/learning.py"},
}


@pytest.mark.parametrize("module", sorted(HOMES))
def test_a_dependency_that_not_all_need_is_imported_only_in_its_home(module: str) -> None:
    homes = {
        next((home for home in HOMES[module] if file.startswith(home)), file)
        for path in SOURCE.rglob("*.py")
        if package_of(path) != "testing" and module in _third_party(path)
        for file in [str(path.relative_to(SOURCE))]
    }
    assert homes == HOMES[module]


def _third_party(path: Path) -> set[str]:
    return {name.split(".")[0] for name in _imported(path)}
