"""Programs to begin with: read one, copy it, change its first lines."""

from __future__ import annotations

from pathlib import Path

NAMES = ("mean", "regression", "kmeans", "estimator", "strict_mean", "strict_regression")


def template(name: str) -> Path:
    """The file of a template, whose function has the same name."""
    ending = ".star" if name.startswith("strict_") else ".py"
    return Path(__file__).with_name(f"{name}{ending}")
