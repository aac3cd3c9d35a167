"""The command line: one module for each command that is not made from a declaration."""

from sfumato.cli.process import INTERRUPTED

try:
    from sfumato.cli.main import main
except (
    KeyboardInterrupt
):  # while modules are loaded nothing has begun, so there is nothing to report
    raise SystemExit(INTERRUPTED) from None

__all__ = ["main"]
