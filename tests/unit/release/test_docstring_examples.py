"""The examples in docstrings of tables, releases, criteria, schemas and vaults run as written."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest


@pytest.mark.parametrize(
    ("module", "at_least"),
    [
        ("sfumato.release.open_table", 4),
        ("sfumato.release.release", 4),
        ("sfumato.anonymize.criteria.identity", 3),
        ("sfumato.anonymize.criteria.diversity", 4),
        ("sfumato.anonymize.criteria.closeness", 3),
        ("sfumato.methods.local", 13),
        ("sfumato.data.schema.column", 1),
        ("sfumato.data.schema.domain", 2),
        ("sfumato.data.schema.hierarchy", 3),
        ("sfumato.data.schema.hierarchy", 1),
        ("sfumato.data.schema.schema", 1),
        ("sfumato.data.schema.unit", 2),
        ("sfumato.vault.private", 4),
        ("sfumato.vault.protection", 1),
        ("sfumato.vault.vault_api", 2),
        ("sfumato.vault.vault", 2),
        ("sfumato.client.vault", 1),
    ],
)
def test_examples_of_a_module_run(module: str, at_least: int) -> None:
    loaded = import_module(module)
    examples = [one for one in doctest.DocTestFinder().find(loaded) if one.examples]
    assert len(examples) >= at_least
    assert doctest.testmod(loaded).failed == 0
