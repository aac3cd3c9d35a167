"""The checker stands alone, and the chain is what its documentation says."""

from __future__ import annotations

import ast
import io
import json
import subprocess
import sys
from pathlib import Path

from tests.fixtures.ledgers import charge

from sfumato.privacy.accounting.filters import Budget
from sfumato.privacy.ledger import checker
from sfumato.privacy.ledger.chain import ORIGIN, canonical, link
from sfumato.privacy.ledger.memory import memory_ledger


def test_it_imports_nothing_of_ours_and_is_short() -> None:
    source = Path(checker.__file__).read_text()
    modules = {
        name.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import)
        for name in node.names
    } | {
        str(node.module) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)
    }
    plain = {"hashlib", "json", "sys", "fractions", "decimal", "functools"}
    assert modules <= {*plain, "__future__", "typing", "collections.abc"}
    assert len(source.splitlines()) <= 300


def test_it_runs_by_itself(tmp_path: Path) -> None:
    ledger = memory_ledger()
    ledger.open_account("visits", budget=Budget.for_epsilon_delta(epsilon=1))
    charge(ledger, "1/10", "r1")
    target = io.StringIO()
    ledger.export(target)
    export = tmp_path / "export.jsonl"
    export.write_text(target.getvalue())
    command = [sys.executable, "-S", "-I", checker.__file__, str(export)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {"visits": [[100_000_000]]}


def test_the_chain_of_a_known_entry() -> None:
    body = canonical({"b": 1, "a": ["é", None]})
    assert body == '{"a":["\\u00e9",null],"b":1}'
    # echo -n: sixty-four zeros, a line feed, the body; through sha256sum.
    assert link(ORIGIN, body) == KNOWN


KNOWN = "5742159ef88132a34a89fbb77519a0ef91b5440cee7d082187290e5d12fe969f"
