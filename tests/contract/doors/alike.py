"""Whether two answers are the same in everything that one can ask of them."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.vault.answer import Answer

_APART = ("charged", "entry", "kept", "tables")
"""What belongs to how it was asked: a repeat is free; entries and files are of the machine."""


def assert_alike(one: Answer, other: Answer) -> None:
    """Both have the same type and, of their attributes, all the same."""
    assert type(one) is type(other)
    for field in fields(one):
        if field.name not in _APART:
            mine, others = getattr(one, field.name), getattr(other, field.name)
            assert _plain(mine) == _plain(others), field.name
    assert [*one.tables] == [*other.tables]
    for name, table in one.tables.items():
        assert table.schema.equals(other.tables[name].schema, check_metadata=True)
        # As texts: what is not a number is no number, wherever it came from.
        assert str(table.to_pylist()) == str(other.tables[name].to_pylist()), name
    ignored = {"cost"}  # which says whether it was charged now
    told, others_told = one.to_json(), other.to_json()
    assert {k: v for k, v in told.items() if k not in ignored} == {
        k: v for k, v in others_told.items() if k not in ignored
    }


def _plain(value: Any) -> Any:
    """A value such that equality means the same everywhere; plans are told by what they ask."""
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    parameters = getattr(value, "parameters", None)
    if parameters is not None and hasattr(value, "datasets"):
        return value.name, parameters, dict(getattr(value, "error", None) or {})
    return repr(value) if type(value).__module__.startswith("sfumato.methods.synth") else value
