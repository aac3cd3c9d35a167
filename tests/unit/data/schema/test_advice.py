from __future__ import annotations

import tomllib

import pytest

from sfumato.data.schema.column import Kind
from sfumato.data.schema.toml_document import DOMAIN, add_line, section


@pytest.mark.parametrize("name", ["age", "Anteil Zuzahlung", 'the "real" one', "Größe", "a\\b\x7f"])
def test_a_section_is_what_a_file_has(name: str) -> None:
    assert tomllib.loads(f"{section(name)}\nkind = 1") == {"columns": {name: {"kind": 1}}}


@pytest.mark.parametrize("kind", list(Kind))
def test_every_kind_has_a_line_to_add(kind: Kind) -> None:
    assert tomllib.loads(DOMAIN[kind])
    assert add_line("a b", DOMAIN[kind]) == f'Add to [columns."a b"] in its schema: {DOMAIN[kind]}'
