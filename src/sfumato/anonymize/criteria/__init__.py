"""The criteria, one member per module; they combine freely."""

from sfumato.anonymize.criteria.base import Criterion
from sfumato.anonymize.criteria.beta_likeness import BetaLikeness
from sfumato.anonymize.criteria.delta_disclosure import DeltaDisclosure
from sfumato.anonymize.criteria.delta_presence import DeltaPresence
from sfumato.anonymize.criteria.distinct_diversity import DistinctDiversity
from sfumato.anonymize.criteria.entropy_diversity import EntropyDiversity
from sfumato.anonymize.criteria.folk_diversity import FolkDiversity
from sfumato.anonymize.criteria.k_anonymity import KAnonymity
from sfumato.anonymize.criteria.k_map import KMap
from sfumato.anonymize.criteria.recursive_diversity import RecursiveDiversity
from sfumato.anonymize.criteria.t_closeness import TCloseness

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
