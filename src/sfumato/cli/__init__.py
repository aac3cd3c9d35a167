"""The command line, one file per command."""

from sfumato.cli.main import main

__all__ = ["main"]
