"""Graphs of people: counts and degrees under differential privacy, for edges or for nodes."""

from __future__ import annotations

from importlib.util import find_spec

from sfumato.errors import ParameterError

if find_spec("scipy") is None:
    raise ParameterError(
        "package_missing",
        "Graphs need packages that are not installed. Install them with: pip install "
        "'sfumato[graph]'.",
    )

from sfumato.methods.graph.conversion import from_networkx, to_networkx  # it needs them

__all__ = ["from_networkx", "to_networkx"]
