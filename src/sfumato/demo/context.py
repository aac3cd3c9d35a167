"""What every section of the demo page is given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.risk import Inspection
    from sfumato.schema.inference import Guess


@dataclass(frozen=True)
class Town:
    """The made-up town: its tables, what its columns look like, and what was seen in them.

    The guesses are those of a program that was told nothing; the inspection rests on the roles
    that a person has confirmed in the schema.
    """

    people: pa.Table
    visits: pa.Table
    voters: pa.Table
    guesses: tuple[Guess, ...]
    inspection: Inspection
