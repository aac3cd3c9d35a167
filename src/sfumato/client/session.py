"""A session with a server: requests are planned here from its declarations, and answered there.

Planning needs public facts alone, so a plan made here is the plan made there: its digest is sent
with the request. Decision `client`.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field, replace
from http.client import ACCEPTED
from typing import TYPE_CHECKING, Any
from weakref import finalize

from sfumato import arguments
from sfumato.client.declarations import no_budget
from sfumato.client.error_reader import unexpected
from sfumato.client.jobs import waited
from sfumato.client.response_reader import JSON
from sfumato.client.wire import answer_of
from sfumato.errors import ParameterError, PolicyError
from sfumato.exact_numbers import EPSILON_MAXIMUM
from sfumato.operations.fields import to_json
from sfumato.operations.private_methods import METHOD_OF
from sfumato.operations.releases import ANSWER
from sfumato.vault.jobs.job import check_request
from sfumato.vault.session import Facts, foreign_plan, plan_digest, prepared_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from fractions import Fraction

    from sfumato.client.connection import Connection
    from sfumato.client.declarations import RemoteCatalogue
    from sfumato.client.response_reader import Received
    from sfumato.methods.method import Dataset, Plan
    from sfumato.methods.programs.forecast import ProgramForecast
    from sfumato.methods.programs.request import ProgramRun
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.vault.answer import Answer
    from sfumato.vault.families import Family
    from sfumato.vault.release_attacks import ReleaseGate
    from sfumato.vault.session import AskerOf


_CLIENT_PREFIX = "made-"
"""The beginning of request ids that the client makes itself."""


@dataclass(frozen=True)
class _Planned:
    """A plan that was made here: its family, and the body of the request."""

    family: Family
    body: dict[str, Any]


@dataclass(frozen=True)
class RemoteSession:
    """The declarations of a server, and the connection to it."""

    connection: Connection
    catalogue: RemoteCatalogue
    _bodies: dict[int, _Planned] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """The request of each plan that was made here and still exists."""

    def facts(self, asker_of: AskerOf, dataset: str = "") -> Facts:
        """The public facts for planning; the server checks permissions."""
        catalogue = self.catalogue
        names = (dataset,) if dataset in catalogue else catalogue
        limits = (catalogue.declared(name).maximum for name in names)
        maximum = next((limit for limit in limits if limit is not None), EPSILON_MAXIMUM)
        return Facts(catalogue, dataset, maximum, self._usual, catalogue.check, asker_of)

    def prepare(self, family: Family, values: Mapping[str, Any], facts: Facts) -> Plan:
        """Plan a request from public facts alone."""
        prepared = prepared_of(family, values, facts)
        facts.admit(prepared.datasets)
        # Keyed by identity, and removed with the plan: no later plan can inherit its body.
        self._bodies[id(prepared)] = _Planned(family, _body(family, values, facts))
        # Not at exit, when nobody needs the memory any more.
        finalize(prepared, self._bodies.pop, id(prepared), None).atexit = False
        return prepared

    def run(
        self,
        family: Family,
        prepared: Plan,
        asker_of: AskerOf,
        *,
        request_id: str | None = None,
        gate: ReleaseGate | None = None,
    ) -> Answer:
        """Have the server charge and answer a plan."""
        arguments.maybe_text(request_id, "request_id")
        if request_id is not None:
            check_request(request_id)
        if gate is not None:
            raise _rows_elsewhere("What attacks find is computed from the original rows")
        key = f"{_CLIENT_PREFIX}{secrets.token_hex(16)}" if request_id is None else request_id
        # Without a request id a key of our own, so that a lost request can be sent again.
        received = self._send(METHOD_OF[family.name].command, prepared, asker_of, key)
        # All but queries are jobs, which may take longer than one request.
        if received.status == ACCEPTED:
            received = waited(self.connection, received.json())
        return family.read(answer_of(received, own_id=request_id is None), prepared)

    def left(self, datasets: tuple[str, ...], asker_of: AskerOf) -> tuple[Mapping[str, float], str]:
        """The largest cost of one more query, as amounts and in words."""
        asker_of(datasets)  # raises if the caller names another principal
        [name] = datasets
        return self.catalogue.left(name)

    def left_after(self, prepared: Plan, asker_of: AskerOf) -> tuple[Mapping[str, float], str]:
        """The budget left after this charge, as amounts and in words."""
        forecast = self._explained(prepared, asker_of)
        try:
            return forecast["remaining_after"], forecast["balance_after"]
        except KeyError:
            raise unexpected("a forecast that cannot be read") from None

    def confirm(self, prepared: Plan, asker_of: AskerOf) -> None:
        """Have the server check that it makes the same plan and permits it."""
        self._explained(prepared, asker_of)

    def dry_run(self, prepared: ProgramRun, asker_of: AskerOf) -> ProgramForecast:
        """Have the server run a program on synthetic rows, in its sandbox; free."""
        forecast = self._explained(prepared, asker_of)
        try:
            return replace(
                prepared.forecast(()),
                seconds=float(forecast["seconds"]),
                notes=tuple(forecast["notes"]),
            )
        except (KeyError, TypeError, ValueError):
            raise unexpected("a forecast that cannot be read") from None

    def _explained(self, prepared: Plan, asker_of: AskerOf) -> dict[str, Any]:
        """The forecast of the server for a plan; free."""
        family = self._planned(prepared).family
        path = f"explain/{METHOD_OF[family.name].command}" if family.of_dataset else "explain"
        return self._send(path, prepared, asker_of).json()

    def check_all(
        self,
        methods: Sequence[Plan],  # noqa: ARG002
        asker_of: AskerOf,  # noqa: ARG002
    ) -> list[Charged]:
        """Refused: candidates are compared by the rows, which stay in the vault."""
        raise _rows_elsewhere("Candidates are compared by the original rows")

    def owners_rows(
        self,
        dataset: str,  # noqa: ARG002
        asker_of: AskerOf,  # noqa: ARG002
    ) -> AbstractContextManager[Dataset]:
        """Refused: no rows leave the vault."""
        raise _rows_elsewhere("This looks at the original rows")

    def _usual(self, datasets: tuple[str, ...]) -> Fraction:
        """The cost of a query about these data sets when none is given."""
        costs = []
        for name in datasets:
            cost = self.catalogue.declared(name).usual
            if cost is None:
                raise no_budget(name)
            costs.append(cost)
        return min(costs)

    def _planned(self, prepared: Plan) -> _Planned:
        planned = self._bodies.get(id(prepared))
        # Also a plan of another connection, whose body is not known here.
        if planned is None:
            raise foreign_plan()
        return planned

    def _send(
        self, path: str, prepared: Plan, asker_of: AskerOf, key: str | None = None
    ) -> Received:
        """Send a request with its purpose and the digest of the expected plan."""
        purpose = asker_of(prepared.datasets).purpose
        stated = {} if purpose is None else {"purpose": purpose}
        # The digest of the plan: the server refuses to charge a plan that the caller has not seen.
        body = {**self._planned(prepared).body, **stated, "plan": plan_digest(prepared)}
        try:
            return self.connection.send("POST", path, body, accept=f"{ANSWER}, {JSON}", key=key)
        except ParameterError as error:
            if error.code == "plan_changed":
                # The cached declarations are outdated; the next plan fetches them.
                self.catalogue.forget()
            raise


def _body(family: Family, values: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """The body of a request: files of this machine are replaced by their contents."""
    # Amounts stay as given: an exact number must not become a float on its way.
    amounts = {name: values[name] for name in family.cost if name in values}
    options = {name: value for name, value in values.items() if name not in amounts}
    sent = {**family.home().without_files(facts, **options), **amounts}
    if family.of_dataset:
        sent["dataset"] = facts.dataset
    non_empty = {name: value for name, value in sent.items() if not _is_nothing(value)}
    return to_json(METHOD_OF[family.name].read(non_empty, text=True))


def _is_nothing(value: object) -> bool:
    return value is None or (isinstance(value, str | tuple | list) and not value)


def _rows_elsewhere(why: str) -> PolicyError:
    return PolicyError(
        "rows_elsewhere",
        f"{why}, which do not leave the vault. Do this where it is, with sf.open or the command.",
    )
