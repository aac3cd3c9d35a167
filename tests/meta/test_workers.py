"""What tests do to the process that runs them all."""

from __future__ import annotations

import gc
import os


def test_a_forked_child_collects_no_garbage() -> None:
    """It would end by SIGSEGV at a connection whose threads it does not have."""
    assert gc.isenabled()
    child = os.fork()
    if not child:
        os._exit(gc.isenabled())
    assert os.waitpid(child, 0)[1] == 0
