"""Sfumato measures the risk of data about people, releases it safely and answers queries about it.

The names below are loaded at their first use: importing all of them takes far longer than most
commands.

Example
-------
>>> import sfumato as sf
>>> sf.KAnonymity(5).k
5
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from sfumato.attack.comparison.compare import compare
    from sfumato.attack.evaluation.evaluate import evaluate
    from sfumato.client.vault import connect
    from sfumato.data.schema.column import Column, Kind, Role
    from sfumato.data.schema.domain import Bounds, Values
    from sfumato.data.schema.hierarchy import Calendar, Mask, Removal, Tree, Widths
    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Entity, Neighbours, Rows
    from sfumato.errors import SfumatoError
    from sfumato.methods import local
    from sfumato.methods.local.survey import Survey
    from sfumato.methods.query.builder import table
    from sfumato.methods.synth.synthesis_model import SynthesisModel
    from sfumato.privacy import noise
    from sfumato.release.open_table import Table, read
    from sfumato.release.release import Release
    from sfumato.vault.answer import Answer as Answer
    from sfumato.vault.private import Private as Private
    from sfumato.vault.protection import protect
    from sfumato.vault.vault import Vault
    from sfumato.vault.vault import create_vault as init
    from sfumato.vault.vault import open_vault as open  # noqa: A004  used as `sf.open`

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

# The module of each name, as in the imports above, which only type checkers read.
_HOMES = {
    "Answer": "vault.answer",
    "BetaLikeness": "anonymize.criteria",
    "Bounds": "data.schema.domain",
    "Calendar": "data.schema.hierarchy",
    "Column": "data.schema.column",
    "DeltaDisclosure": "anonymize.criteria",
    "DeltaPresence": "anonymize.criteria",
    "DistinctDiversity": "anonymize.criteria",
    "Entity": "data.schema.unit",
    "EntropyDiversity": "anonymize.criteria",
    "FolkDiversity": "anonymize.criteria",
    "KAnonymity": "anonymize.criteria",
    "KMap": "anonymize.criteria",
    "Kind": "data.schema.column",
    "Mask": "data.schema.hierarchy",
    "Neighbours": "data.schema.unit",
    "Private": "vault.private",
    "RecursiveDiversity": "anonymize.criteria",
    "Release": "release.release",
    "Removal": "data.schema.hierarchy",
    "Role": "data.schema.column",
    "Rows": "data.schema.unit",
    "Schema": "data.schema.schema",
    "SfumatoError": "errors",
    "Survey": "methods.local.survey",
    "SynthesisModel": "methods.synth.synthesis_model",
    "TCloseness": "anonymize.criteria",
    "Table": "release.open_table",
    "Tree": "data.schema.hierarchy",
    "Values": "data.schema.domain",
    "Vault": "vault.vault",
    "Widths": "data.schema.hierarchy",
    "compare": "attack.comparison.compare",
    "connect": "client.vault",
    "evaluate": "attack.evaluation.evaluate",
    "init": "vault.vault",
    "local": "methods.local",
    "noise": "privacy.noise",
    "open": "vault.vault",
    "protect": "vault.protection",
    "read": "release.open_table",
    "table": "methods.query.builder",
}
_MODULES = {"local", "noise"}
# In their own modules `open` would shadow the built-in function, and `init` would say too little.
_RENAMED = {"open": "open_vault", "init": "create_vault"}


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it."""
    if name in _HOMES:
        module = import_module(f"sfumato.{_HOMES[name]}")
        return module if name in _MODULES else getattr(module, _RENAMED.get(name, name))
    raise AttributeError(f"module 'sfumato' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
