"""Collect from people who do not trust us: each report is randomized before it leaves its device.

    oracle = sf.local.oracle("olh", domain=1024, epsilon=1)
    reports = oracle.randomize(values)              # on each client
    sketch = oracle.sketch(reports) + other_sketch  # at the collector
    oracle.estimate(sketch)                         # value, share, sd

Names are loaded when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sfumato.local.base import Oracle
    from sfumato.local.level import LocalEpsilon
    from sfumato.privacy.numbers import Number

__all__ = ["from_json", "log", "names", "oracle"]


def oracle(name: str, domain: object, *, epsilon: Number | LocalEpsilon, **options: Any) -> Oracle:
    """A mechanism by its name: `sf.local.oracle("olh", domain=1024, epsilon=1)`.

    `domain` is the list of values that a person can have, or their number: then values are 0, 1,
    2, ... `epsilon` is a number, or `sf.local.log(3)` where the odds are to be exactly 3 to 1.
    """
    from sfumato.local.catalogue import make

    return make(name, domain, epsilon, options)


def from_json(told: object) -> Oracle:
    """The oracle that its `to_json` described."""
    from sfumato.local.catalogue import from_json as read

    return read(told)


def log(odds: Number) -> LocalEpsilon:
    """The epsilon whose odds e^epsilon are exactly this: log(3) is that of two honest coins."""
    from sfumato.local.level import log as read

    return read(odds)


def names() -> tuple[str, ...]:
    """The names of all oracles."""
    from sfumato.local.catalogue import ORACLES

    return tuple(ORACLES)
