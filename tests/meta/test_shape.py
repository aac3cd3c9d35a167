"""Docstrings, exports and imports: what keeps the tree readable and quick to load."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "sfumato"
FILES = sorted(SOURCE.rglob("*.py"))
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@cache
def trees() -> dict[Path, ast.Module]:
    return {path: ast.parse(path.read_text()) for path in FILES}


def name_of(path: Path) -> str:
    return str(path.relative_to(SOURCE))


def test_everything_public_has_a_docstring() -> None:
    bare = [name_of(path) for path, tree in trees().items() if not ast.get_docstring(tree)]
    bare += [
        f"{name_of(path)}:{node.name}"
        for path, tree in trees().items()
        for node in _public_definitions(tree)
        if not ast.get_docstring(node)
    ]
    assert bare == []


def _public_definitions(
    tree: ast.Module | ast.ClassDef,
) -> list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef]:
    found: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
    for node in tree.body:
        if isinstance(node, (*FUNCTIONS, ast.ClassDef)) and not node.name.startswith("_"):
            found.append(node)
            if isinstance(node, ast.ClassDef):
                found += _public_definitions(node)
    return found


def test_at_most_forty_public_names_and_all_of_them_load() -> None:
    import sfumato

    assert len(sfumato.__all__) <= 40
    assert sorted(set(sfumato.__all__)) == sfumato.__all__
    for name in sfumato.__all__:
        assert getattr(sfumato, name) is not None


def test_importing_the_package_loads_nothing_heavy() -> None:
    heavy = "{'duckdb', 'jinja2', 'pyarrow', 'numpy', 'sqlglot', 'sqlalchemy', 'pandas', 'rich'}"
    code = f"import sys, sfumato; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_pages_load_their_templates_only_when_one_is_made() -> None:
    code = "import sys, sfumato.cli.main, sfumato.release.page; print('jinja2' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_no_unfinished_work_is_marked_in_the_tree() -> None:
    marks = ("TODO", "FIXME", "XXX", "NotImplementedError")
    found = [
        f"{name_of(path)}:{number}"
        for path in FILES
        for number, line in enumerate(path.read_text().splitlines(), start=1)
        if any(mark in line for mark in marks)
    ]
    assert found == []


def test_json_is_written_in_one_place() -> None:
    """That place writes no NaN and no infinity; the checker of ledgers stands alone."""
    alone = {"text.py", "privacy/ledger/checker.py"}
    loose = [
        name_of(path)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in {"json.dumps", "json.dump"}
        and not any(one.arg == "allow_nan" for one in node.keywords)
    ]
    assert sorted(set(loose) - alone) == []
