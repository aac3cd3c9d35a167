"""Trying attacks on what was paid for, before its owner lets it leave.

A finding is computed from the original outside of any mechanism: it is the owner's, and of nobody
who asks under a budget. What was charged stays charged, whatever is found; and a release that was
let through because of what was found says that this choice is covered by no guarantee.

Decision `findings`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from sfumato.attack.release_check import attacked_counts, attacked_rows, read_as_rows
from sfumato.attack.requirements import TriedAttacks, check, check_paid, read_requirements
from sfumato.data.schema.column import Role
from sfumato.errors import PolicyError, option
from sfumato.methods.method import KindPlan
from sfumato.methods.publish.publication import Publication
from sfumato.methods.synth.request import SynthesisRequest
from sfumato.vault.answer import Answer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from sfumato.attack.finding import Findings
    from sfumato.attack.requirements import Requirement
    from sfumato.data.schema.column import Column
    from sfumato.data.schema.schema import Schema
    from sfumato.methods.method import Plan
    from sfumato.vault.session import AskerOf, Session

A = TypeVar("A", bound=Answer)

CHOSEN = (
    "It was released because attacks, scored on the original rows, found no more than its owner "
    "allows: that choice is not covered by this guarantee."
)
_MEND = (
    "The charge stays: the answer is stored, and the same without requirements is free. Ask for "
    "less epsilon, or for fewer columns; or require less."
)


@dataclass(frozen=True)
class ReleaseGate:
    """What a release must withstand before it is given, and whether all may know what it did."""

    requirements: tuple[Requirement, ...] = ()
    publish: bool = False

    @classmethod
    def asked(cls, require: Sequence[str] | str, *, publish: bool) -> ReleaseGate:
        """The gate by what is written of it."""
        return cls(read_requirements(require), publish)

    def check(self, session: Session, asker_of: AskerOf, prepared: Plan) -> None:
        """Refuse, before anything is charged, to attack for others, or what cannot be attacked."""
        if not asker_of(prepared.datasets).is_owner:
            raise PolicyError(
                "permission_missing",
                "What attacks find is computed from the original rows: it is for the owner of the "
                f"vault, not for who asks under a budget. Leave out {option('require')}, "
                f"{option('owner_report', True)} and {option('publish_findings', True)}, or ask as "
                "the owner.",
            )
        if len(prepared.datasets) > 1:
            raise PolicyError(
                "requirement_failed",
                "A pair of tables is not attacked before it leaves: attacks look at one. Leave out "
                f"{option('require')} and {option('owner_report', True)}, and try each with "
                "sfumato attack.",
            )
        schema = session.facts(asker_of, prepared.datasets[0]).declared.schema
        check_paid(self.requirements, _looked_at(prepared, schema))

    def tried(self, session: Session, asker_of: AskerOf, prepared: Plan, answer: A) -> A:
        """An answer with what attacks find in it; refused where that is more than is allowed."""
        purpose = asker_of(prepared.datasets).purpose
        findings = _found(session, prepared, answer, self.requirements, purpose)
        check(self.requirements, findings, mend=_MEND)
        texts = tuple(requirement.text for requirement in self.requirements)
        attacks = TriedAttacks(findings, texts, self.publish)
        promised = answer.guarantee
        parameters = {**promised.parameters, **attacks.travels}
        if attacks.notes:
            parameters["notes"] = [*parameters.get("notes", ()), *attacks.notes]
        stated = f"{promised.statement} {CHOSEN}" if texts else promised.statement
        guarantee = replace(promised, statement=stated, parameters=parameters)
        return replace(answer, guarantee=guarantee, holder=attacks.kept)


def _looked_at(prepared: Plan, schema: Schema) -> list[Column] | None:
    """The columns that attacks will have; None where there is nothing that they could look at."""
    if isinstance(prepared, Publication):
        read = read_as_rows(prepared.method.tables, prepared.request.columns)
        if read is None:
            return None
        names = read[0].column_names
    elif isinstance(prepared, KindPlan):  # of a form: a graph, paths or baskets
        return None
    else:
        assert isinstance(prepared, SynthesisRequest)
        names = [column.name for column in prepared.columns[prepared.dataset]]
    return [
        column
        for column in schema.columns
        if column.name in names and column.role is not Role.IDENTIFIER
    ]


def _found(
    session: Session,
    prepared: Plan,
    answer: Answer,
    requirements: Sequence[Requirement],
    purpose: str | None,
) -> Findings:
    with session.store.together(prepared.datasets, (), purpose=purpose) as datasets:
        [data] = datasets.values()
        original = data.engine, data.table
        if isinstance(prepared, Publication):
            columns = prepared.request.columns
            return attacked_counts(answer.tables, columns, data.schema, original, requirements)
        return attacked_rows(answer.table, data.schema, original, requirements)
