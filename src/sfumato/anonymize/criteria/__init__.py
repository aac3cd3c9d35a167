"""The criteria by family: against being found, diversity, closeness; they combine freely."""

from sfumato.anonymize.criteria.base import Criterion
from sfumato.anonymize.criteria.closeness import BetaLikeness, DeltaDisclosure, TCloseness
from sfumato.anonymize.criteria.diversity import (
    DistinctDiversity,
    EntropyDiversity,
    FolkDiversity,
    RecursiveDiversity,
)
from sfumato.anonymize.criteria.identity import DeltaPresence, KAnonymity, KMap

__all__ = [
    "BetaLikeness",
    "Criterion",
    "DeltaDisclosure",
    "DeltaPresence",
    "DistinctDiversity",
    "EntropyDiversity",
    "FolkDiversity",
    "KAnonymity",
    "KMap",
    "RecursiveDiversity",
    "TCloseness",
]
