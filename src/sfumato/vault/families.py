"""The families of private methods, as planning knows them.

What a family is asked is declared in `operations.private_methods`. The module of a family has

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
    """Methods that are asked alike."""

    name: str
    module: str
    shape: str
    """The shape of its answers, which a principal is permitted or not."""
    of_dataset: bool = True
    """Whether it is asked of one data set; else the query names them."""
    cost: tuple[str, ...] = ("epsilon", "rho", "delta")
    """The amounts that its cost may be given by."""
    fixed: Mapping[str, object] = field(default_factory=dict)
    """What its module is told of every request."""

    def home(self) -> Any:
        """The module that prepares its methods."""
        return import_module(self.module)

    def read(self, answer: Answer, prepared: Plan) -> Answer:
        """What the gatekeeper gave to one of its methods, with the means to read it."""
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
