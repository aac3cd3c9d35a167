"""The command line, one file per command."""

from sfumato.cli.process import INTERRUPTED

try:
    from sfumato.cli.main import main
except KeyboardInterrupt:  # nothing was begun, so there is nothing to say
    raise SystemExit(INTERRUPTED) from None

__all__ = ["main"]
