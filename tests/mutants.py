"""Measure the power of the tests: change the code in small ways and count the changes they notice.

    python tests/mutants.py map                     run tests once; note which ones reach which line
    python tests/mutants.py run [--count 600]       draw mutants, run for each the tests of its line
    python tests/mutants.py table                   write docs/mutants.md from the results so far

Only the code that keeps the privacy promise is mutated (`GROUPS`). Mutants are drawn at random, as
many for each group as for any other, with a seed that is stated. `run` continues where it stopped.

The mutations are made here because the known tools do not fit: cosmic-ray brings fourteen packages
into the environment under test, and mutmut rewrites every function of the package before it starts.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from math import sqrt
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src" / "sfumato"
STORE = ROOT / ".mutants"
COVERAGE, RESULTS = STORE / "coverage.sqlite", STORE / "results.jsonl"
PAGE = ROOT / "docs" / "mutants.md"
SEED = 20261119
SECONDS = 60
"""How long the tests of one mutant may take. A mutant that makes them hang is killed."""

GROUPS: dict[str, tuple[str, ...]] = {
    "accounting": ("privacy/accounting",),
    "noise": ("privacy/noise",),
    "mechanisms": ("privacy/mechanisms",),
    "counting": ("data/counting",),
    "ledger": ("privacy/ledger",),
    "gatekeeper": ("vault/gatekeeper.py", "vault/session.py", "vault/limits.py"),
    "contribution bounds": ("data/counting/contribution.py", "vault/consent/consent_filter.py"),
    "joins and caps": (
        "methods/query/sql/joins.py",
        "methods/query/sql/work_limits.py",
        "methods/query/answer/engine_queries.py",
    ),
    "histogram": (
        "methods/publish/histogram.py",
        "methods/publish/measurement.py",
        "methods/publish/publication.py",
        "methods/method.py",
    ),
}
"""What is mutated: names for the table, each with files or folders of the package."""

TESTS = (
    "tests/unit/privacy",
    "tests/unit/data/counting",
    "tests/unit/methods/query",
    "tests/unit/methods/publish",
    "tests/unit/methods/test_method.py",
    "tests/unit/vault",
    "tests/contract/privacy",
    "tests/contract/vault",
    "tests/property",
    "tests/audit",
    "tests/wrong",
    "tests/registry",
)
"""The tests that may notice a mutant: those that run in one process in reasonable time."""

_SWAPS: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.And: ast.Or,
    ast.Or: ast.And,
}
_NAMES = {"min": "max", "max": "min", "any": "all", "all": "any", "floor": "ceil", "ceil": "floor"}


@dataclass(frozen=True)
class Mutant:
    """One small change of one file."""

    group: str
    path: str
    line: int
    number: int
    """Its place among the changes of the file."""
    change: str


@dataclass(frozen=True)
class Edit:
    """A change of one attribute of a node of a syntax tree."""

    node: ast.AST
    name: str
    value: object
    line: int
    shown: ast.AST
    """The node whose text tells what changes."""


def edits_of(tree: ast.Module) -> list[Edit]:
    """List every change of a module.

    Annotations, docstrings, messages of errors and imports for type checking are left alone: a
    change there is none of behaviour.
    """
    return [edit for node in _mutable(tree) for edit in (*_of_values(node), *_of_statements(node))]


def _mutable(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
        return
    yield node
    for name, value in ast.iter_fields(node):
        if name in {"annotation", "returns", "decorator_list"}:
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _mutable(child)


def _of_values(node: ast.AST) -> Iterator[Edit]:
    """Change an operator, a number, a truth value, or min to max."""

    def edit(name: str, value: object) -> Edit:
        return Edit(node, name, value, getattr(node, "lineno", 0), node)

    match node:
        case ast.Compare():
            for index, operator in enumerate(node.ops):
                yield edit("ops", [*node.ops[:index], _swap(operator), *node.ops[index + 1 :]])
        case ast.BinOp() if _is_text(node):
            return
        case ast.BinOp() | ast.BoolOp() | ast.AugAssign() if type(node.op) in _SWAPS:
            yield edit("op", _swap(node.op))
        case ast.Constant(value=bool(value)):
            yield edit("value", not value)
        case ast.Constant(value=int(value)):
            yield edit("value", value + 1)
        case ast.Name(id=name) if name in _NAMES:
            yield edit("id", _NAMES[name])


def _of_statements(node: ast.AST) -> Iterator[Edit]:
    """Negate a condition, leave out a filter, or leave out a statement."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        yield Edit(node, "test", ast.UnaryOp(ast.Not(), node.test), node.lineno, node.test)
    if isinstance(node, ast.comprehension) and node.ifs:
        yield Edit(node, "ifs", [], node.iter.lineno, node)
    if isinstance(node, ast.FunctionDef | ast.For | ast.If | ast.With):
        for index, statement in enumerate(node.body):
            if _is_dropped(statement):
                body = [*node.body[:index], ast.Pass(), *node.body[index + 1 :]]
                yield Edit(node, "body", body, statement.lineno, statement)


def _swap(operator: ast.AST) -> ast.AST:
    return _SWAPS[type(operator)]()


def _is_text(node: ast.BinOp) -> bool:
    """Whether an operation joins or formats texts."""
    return any(
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str))
        for side in (node.left, node.right)
    )


def _is_dropped(statement: ast.stmt) -> bool:
    """Whether a statement may be left out: a call for its effect, a refusal, a sum."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    if isinstance(statement, ast.If):
        return all(isinstance(inner, ast.Raise) for inner in statement.body)
    return isinstance(statement, ast.AugAssign)


def mutants_of(group: str, path: Path) -> list[Mutant]:
    """List the mutants of a file."""
    edits = edits_of(ast.parse(path.read_text()))
    name = str(path.relative_to(SOURCE))
    return [
        Mutant(
            group,
            name,
            edit.line,
            number,
            f"{type(edit.node).__name__}.{edit.name}: {_text(edit.shown)}",
        )
        for number, edit in enumerate(edits)
    ]


def _text(node: ast.AST) -> str:
    return " ".join(ast.unparse(node).split())[:100]


def mutated(path: Path, number: int) -> str:
    """The text of a file with one of its mutants."""
    tree = ast.parse(path.read_text())
    edit = edits_of(tree)[number]
    setattr(edit.node, edit.name, edit.value)
    return ast.unparse(ast.fix_missing_locations(tree))


def draw(count: int) -> list[Mutant]:
    """Draw mutants, the same number for each group; a group with fewer gives all."""
    chance = random.Random(SEED)
    share = -(-count // len(GROUPS))
    drawn = []
    for group, places in GROUPS.items():
        every = [
            mutant
            for place in places
            for path in sorted(
                [SOURCE / place] if place.endswith(".py") else (SOURCE / place).rglob("*.py")
            )
            for mutant in mutants_of(group, path)
        ]
        drawn += chance.sample(every, min(share, len(every)))
    chance.shuffle(drawn)
    return drawn[:count]


def map_tests(arguments: list[str]) -> int:
    """Run the tests once; note for each the lines that it reaches and its seconds."""
    import coverage
    import pytest

    STORE.mkdir(exist_ok=True)
    COVERAGE.unlink(missing_ok=True)
    include = [
        str(SOURCE / place) if place.endswith(".py") else f"{SOURCE / place}/*"
        for places in GROUPS.values()
        for place in places
    ]
    measured = coverage.Coverage(data_file=str(COVERAGE), include=include)
    seconds: dict[str, float] = {}

    class Plugin:
        @pytest.hookimpl(hookwrapper=True)
        def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
            measured.switch_context(item.nodeid)
            begun = time.monotonic()
            yield
            seconds[item.nodeid] = time.monotonic() - begun
            measured.switch_context("")

    measured.start()
    code = pytest.main(["-q", "-p", "no:cacheprovider", *(arguments or TESTS)], plugins=[Plugin()])
    measured.stop()
    measured.save()
    (STORE / "seconds.json").write_text(json.dumps(seconds))
    return int(code)


@dataclass(frozen=True)
class Reach:
    """Which tests reach which line, the fastest first."""

    tests: dict[tuple[str, int], list[str]]
    files: dict[str, list[str]]

    def of(self, mutant: Mutant) -> list[str]:
        """The tests that reach the line; of a line that runs at import those of the file."""
        return self.tests.get((mutant.path, mutant.line)) or self.files.get(mutant.path, [])


def read_map() -> Reach:
    """Read what `map` noted."""
    from coverage.numbits import numbits_to_nums

    seconds = json.loads((STORE / "seconds.json").read_text())
    tests: dict[tuple[str, int], set[str]] = defaultdict(set)
    files: dict[str, set[str]] = defaultdict(set)
    with sqlite3.connect(COVERAGE) as database:
        query = (
            "SELECT path, context, numbits FROM line_bits "
            "JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
        )
        for path, context, bits in database.execute(query):
            if context not in seconds:
                continue
            name = str(Path(path).relative_to(SOURCE))
            files[name].add(context)
            for line in numbits_to_nums(bits):
                tests[name, line].add(context)

    def fastest(names: set[str]) -> list[str]:
        return sorted(names, key=lambda name: (seconds[name], name))

    return Reach(
        {key: fastest(names) for key, names in tests.items()},
        {key: fastest(names) for key, names in files.items()},
    )


def verdict(mutant: Mutant, copy: Path, tests: list[str]) -> str:
    """Run the tests of a mutant in a copy of the source: killed, survived or not covered."""
    if not tests:
        return "not covered"
    target = copy / "sfumato" / mutant.path
    original = target.read_text()
    names = copy / "tests.txt"
    names.write_text("\n".join(tests))
    target.write_text(mutated(SOURCE / mutant.path, mutant.number))
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", f"@{names}"],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return "no failure in time"
    finally:
        target.write_text(original)
    return "survived" if done.returncode == 0 else "killed"


def run(count: int, workers: int) -> None:
    """Try the drawn mutants that have no result yet."""
    reach = read_map()
    done = {(each["path"], each["number"]) for each in results()}
    waiting = [mutant for mutant in draw(count) if (mutant.path, mutant.number) not in done]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(workers) as pool:
        copies: SimpleQueue[Path] = SimpleQueue()
        for index in range(workers):
            copy = Path(folder) / str(index)
            shutil.copytree(SOURCE, copy / "sfumato", ignore=shutil.ignore_patterns("__pycache__"))
            copies.put(copy)

        def attempt(mutant: Mutant) -> None:
            copy = copies.get()
            try:
                outcome = verdict(mutant, copy, reach.of(mutant))
            finally:
                copies.put(copy)
            with RESULTS.open("a") as file:
                file.write(json.dumps({**asdict(mutant), "outcome": outcome}) + "\n")

        for number, _ in enumerate(pool.map(attempt, waiting), 1):
            print(f"\r{number} of {len(waiting)}", end="", file=sys.stderr, flush=True)  # noqa: T201


def results() -> list[dict[str, Any]]:
    """The results so far."""
    return (
        [json.loads(line) for line in RESULTS.read_text().splitlines()] if RESULTS.exists() else []
    )


def interval(killed: int, tried: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share."""
    z = 1.96
    middle = (killed + z * z / 2) / (tried + z * z)
    half = z * sqrt(killed * (tried - killed) / tried + z * z / 4) / (tried + z * z)
    return middle - half, middle + half


def write_table() -> None:
    """Write the page of kill rates and of every mutant that survived."""
    tried: Counter[str] = Counter()
    killed: Counter[str] = Counter()
    survivors = []
    for each in results():
        tried[each["group"]] += 1
        if each["outcome"] == "killed":
            killed[each["group"]] += 1
        else:
            survivors.append(each)
    lines = [
        "# How many changes of the code the tests notice",
        "",
        "`python tests/mutants.py` makes this page. A mutant is one small change of the code, such",
        "as `<` for `<=`, a number that is one larger, or a call that is left out. Mutants are",
        f"drawn at random (seed {SEED}). Only tests that reach the changed line run, at most",
        f"{SECONDS} seconds, the fastest first.",
        "",
        "| code | mutants | killed | share | 95 % interval |",
        "|---|---|---|---|---|",
    ]
    for group in [*GROUPS, "all"]:
        count, dead = (
            (sum(tried.values()), sum(killed.values()))
            if group == "all"
            else (tried[group], killed[group])
        )
        if count:
            low, high = interval(dead, count)
            lines.append(
                f"| {group} | {count} | {dead} | {dead / count:.0%} | {low:.0%} to {high:.0%} |"
            )
    lines += ["", "## Mutants that no test noticed", ""]
    for each in sorted(survivors, key=lambda each: (each["path"], each["line"])):
        lines.append(f"- `{each['path']}:{each['line']}` ({each['outcome']}): `{each['change']}`")
    PAGE.write_text("\n".join(lines) + "\n")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("step", choices=("map", "run", "table"))
    parser.add_argument("tests", nargs="*", help="what 'map' runs instead of the usual tests")
    parser.add_argument("--count", type=int, default=600)
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.step == "map":
        sys.exit(map_tests(given.tests))
    if given.step == "run":
        run(given.count, given.workers)
    else:
        write_table()


if __name__ == "__main__":
    main()
