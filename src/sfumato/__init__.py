"""Sfumato: see the risk in data about people, release it safely, answer questions about it.

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sfumato import local, noise
    from sfumato.anonymize.criteria import (
        BetaLikeness,
        DeltaDisclosure,
        DeltaPresence,
        DistinctDiversity,
        EntropyDiversity,
        FolkDiversity,
        KAnonymity,
        KMap,
        RecursiveDiversity,
        TCloseness,
    )
    from sfumato.errors import SfumatoError
    from sfumato.gate.client.vault import connect
    from sfumato.local.survey import Survey
    from sfumato.privacy.units import Entity, Neighbours, Rows
    from sfumato.query.builder import table
    from sfumato.release.release import Release
    from sfumato.schema.column import Column, Kind, Role
    from sfumato.schema.domain import Bounds, Values
    from sfumato.schema.hierarchy.rules import Calendar, Mask, Removal, Widths
    from sfumato.schema.hierarchy.tree import Tree
    from sfumato.schema.schema import Schema
    from sfumato.steward.compare import compare
    from sfumato.steward.evaluate import evaluate
    from sfumato.steward.table import Table, read
    from sfumato.synth.generator import SynthesisModel
    from sfumato.vault.answer import Answer as Answer
    from sfumato.vault.private import Private as Private
    from sfumato.vault.protection import protect
    from sfumato.vault.vault import Vault
    from sfumato.vault.vault import create_vault as init
    from sfumato.vault.vault import open_vault as open  # noqa: A004 - sf.open, beside the built-in

__version__ = "0.1.0"

__all__ = [
    "BetaLikeness",
    "Bounds",
    "Calendar",
    "Column",
    "DeltaDisclosure",
    "DeltaPresence",
    "DistinctDiversity",
    "Entity",
    "EntropyDiversity",
    "FolkDiversity",
    "KAnonymity",
    "KMap",
    "Kind",
    "Mask",
    "Neighbours",
    "RecursiveDiversity",
    "Release",
    "Removal",
    "Role",
    "Rows",
    "Schema",
    "SfumatoError",
    "Survey",
    "SynthesisModel",
    "TCloseness",
    "Table",
    "Tree",
    "Values",
    "Vault",
    "Widths",
    "compare",
    "connect",
    "evaluate",
    "init",
    "local",
    "noise",
    "open",
    "protect",
    "read",
    "table",
]

_HOMES = {
    "Answer": "vault.answer",
    "BetaLikeness": "anonymize.criteria",
    "Bounds": "schema.domain",
    "Calendar": "schema.hierarchy.rules",
    "Column": "schema.column",
    "DeltaDisclosure": "anonymize.criteria",
    "DeltaPresence": "anonymize.criteria",
    "DistinctDiversity": "anonymize.criteria",
    "Entity": "privacy.units",
    "EntropyDiversity": "anonymize.criteria",
    "FolkDiversity": "anonymize.criteria",
    "KAnonymity": "anonymize.criteria",
    "KMap": "anonymize.criteria",
    "Kind": "schema.column",
    "Mask": "schema.hierarchy.rules",
    "Neighbours": "privacy.units",
    "Private": "vault.private",
    "RecursiveDiversity": "anonymize.criteria",
    "Relation": "privacy.units",
    "Release": "release.release",
    "Removal": "schema.hierarchy.rules",
    "Role": "schema.column",
    "Rows": "privacy.units",
    "Schema": "schema.schema",
    "SfumatoError": "errors",
    "Survey": "local.survey",
    "SynthesisModel": "synth.generator",
    "TCloseness": "anonymize.criteria",
    "Table": "steward.table",
    "Tree": "schema.hierarchy.tree",
    "Values": "schema.domain",
    "Vault": "vault.vault",
    "Widths": "schema.hierarchy.rules",
    "compare": "steward.compare",
    "connect": "gate.client.vault",
    "evaluate": "steward.evaluate",
    "init": "vault.vault",
    "open": "vault.vault",
    "protect": "vault.protection",
    "read": "steward.table",
    "table": "query.builder",
}
# Only here may these have such short names; `Relation` is the old name of `Neighbours`.
_RENAMED = {"open": "open_vault", "init": "create_vault", "Relation": "Neighbours"}


def __getattr__(name: str) -> object:
    """Load a public name from its home."""
    if name in {"local", "noise"}:
        return import_module(f"sfumato.{name}")
    if name in _HOMES:
        home = import_module(f"sfumato.{_HOMES[name]}")
        return getattr(home, _RENAMED.get(name, name))
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
