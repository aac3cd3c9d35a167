"""Attacks by which one block tells another something: whole, for root and for a plain user.

Each is run on the sandboxes as they are, on twins with one of two mends switched off, and on a twin
with both off, where it must work: an attack that never works would show nothing.
"""

from __future__ import annotations

import _codecs_jp  # type: ignore[import-not-found]
import json
import os
import tempfile
from pathlib import Path

import pytest
from tests.fixtures.slices import few_fast
from tests.unit.methods.programs.sandbox import channels
from tests.unit.methods.programs.sandbox.conftest import as_plain_user, provided

from sfumato.methods.programs.sandbox.bubblewrap import Bubblewrap
from sfumato.methods.programs.sandbox.landlock import Landlock

NOTHING = {"page cache": False, "futex": False}
BOTH = {"page cache": True, "futex": True}
"""What a sandbox with both mends off carries, where the user may page out Python's libraries."""


def may_page_out() -> bool:
    """Whether the kernel lets this user page out a library of Python: its owner, a writer, root.

    A Python that root has installed is none of a plain user's, so half of the attack fails there.
    """
    library = Path(_codecs_jp.__file__)
    return os.access(library, os.W_OK) or library.stat().st_uid == os.geteuid()


@pytest.mark.parametrize("base", [Bubblewrap, Landlock])
@pytest.mark.parametrize(
    ("filtered", "fresh", "expected"),
    [
        (True, True, NOTHING),
        (False, False, BOTH),
        *few_fast([(True, False, NOTHING), (False, True, NOTHING)], 0),
    ],
)
def test_attacks_through_the_kernel_carry_nothing(
    base: type[Bubblewrap | Landlock], filtered: bool, fresh: bool, expected: dict[str, bool]
) -> None:
    provided(base.name)
    found = channels.carried(channels.twin(base, filtered=filtered, fresh=fresh))
    assert found == (expected if may_page_out() else expected | {"page cache": False})


def test_they_carry_nothing_for_a_plain_user() -> None:
    """The user owns the library whose pages leave, as all do in an environment of one's own.

    It lies on a disk: pages of a file in memory, where other tests write, cannot leave.
    """
    source = Path(channels.__file__).read_text()
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        told = json.loads(as_plain_user(f"{source}\nprint(report())\n", folder))
    assert told == {name: {"as it is": NOTHING, "both off": BOTH} for name in told}
    assert told.keys() == {"bubblewrap", "landlock"}
