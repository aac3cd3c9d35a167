"""Ctrl-C that a command has heeded: it ended early, and kept what it had."""

from __future__ import annotations


class Kept(Exception):  # noqa: N818  # no error: the command has done what was wished
    """Raised when the work is written; its text says what was kept."""
