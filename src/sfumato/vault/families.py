"""The families of private methods, as planning knows them.

The requests are declared in `operations.private_methods`. The module of a family has

    prepare(facts, offer, **values) -> Plan         from public facts alone; what is charged and run
    without_files(facts, **values) -> dict          the same request without files of this machine
    result(answer, plan) -> Answer                  where an answer needs means to be read
    check_targets(plan, out, report, ...)           where it writes files

and is loaded when it is first needed. Decision `counts-only`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.methods.method import Plan
    from sfumato.vault.answer import Answer


@dataclass(frozen=True, kw_only=True)
class Family:
    """Methods with the same request."""

    name: str
    module: str
    shape: str
    """The shape of its answers; a principal may be permitted some shapes and not others."""
    of_dataset: bool = True
    """Whether the request names one data set; otherwise the query names them."""
    cost: tuple[str, ...] = ("epsilon", "rho", "delta")
    """The amounts by which its cost may be given."""
    fixed: Mapping[str, object] = field(default_factory=dict)
    """Values that `prepare` of its module gets with every request."""

    def home(self) -> Any:
        """The module that prepares its methods."""
        return import_module(self.module)

    def read(self, answer: Answer, prepared: Plan) -> Answer:
        """The answer of the gatekeeper to a plan, as the type of the family."""
        result = getattr(self.home(), "result", None)
        return answer if result is None else cast("Answer", result(answer, prepared))


FAMILIES = {
    family.name: family
    for family in (
        Family(name="query", module="sfumato.vault.queries", shape="query", of_dataset=False),
        Family(name="publish", module="sfumato.vault.publications", shape="publish"),
        Family(
            name="above",
            module="sfumato.vault.publications",
            shape="publish",
            fixed={"kind": "above"},
        ),
        Family(name="synthesize", module="sfumato.vault.syntheses", shape="synthesize"),
        Family(name="learn", module="sfumato.vault.models", shape="publish"),
        Family(name="run", module="sfumato.vault.program_runs", shape="code", cost=("epsilon",)),
    )
}
