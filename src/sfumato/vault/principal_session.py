"""What one principal may ask for one purpose, whatever family of methods it is of."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from sfumato.report.display import Card, Shown
from sfumato.vault.families import FAMILIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from typing import Unpack

    from sfumato.exact_numbers import Number
    from sfumato.methods.method import Dataset, Prepared
    from sfumato.methods.query.answer.explain import Explanation
    from sfumato.methods.query.answer.question import Question
    from sfumato.methods.query.sql.tables import Catalogue
    from sfumato.privacy.accounting.events import Event
    from sfumato.vault.answer import Answer
    from sfumato.vault.family import Family
    from sfumato.vault.options import QueryCost
    from sfumato.vault.query_family import Asked
    from sfumato.vault.release_attacks import ReleaseGate
    from sfumato.vault.session import AskerOf, Asking


class Questions(Shown):
    """What one principal may ask, for one purpose: every family of methods by its name."""

    def __init__(self, session: Asking, asker_of: AskerOf, dataset: str = "") -> None:
        self._session, self._asker_of, self._dataset = session, asker_of, dataset

    def _card(self) -> Card:
        return Card(f"about {', '.join(self.catalogue)}", {})

    @property
    def catalogue(self) -> Catalogue:
        """What is declared of the data sets that may be asked about, by name; no other exists."""
        return self._session.facts(self._asker_of, self._dataset).catalogue

    def query(
        self,
        asked: Asked,
        *,
        epsilon: Number | None = None,
        rho: Number | None = None,
        delta: Number | None = None,
        weights: Mapping[str, Number] | None = None,
        request_id: str | None = None,
    ) -> Answer:
        """Answer a question with noise and error bars, charged to the data sets' budgets.

        It is given in SQL or built from `sf.table`. Without epsilon and rho it costs a tenth of
        the whole budget. The identical question of the same principal is answered again from
        store, free. A request id names one question for good: repeating it is safe.
        """
        cost = {"epsilon": epsilon, "rho": rho, "delta": delta}
        found: Answer = self._ask("query", asked, **cost, weights=weights, request_id=request_id)
        return found

    def explain(self, asked: Asked, **cost: Unpack[QueryCost]) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        return cast("Question", self._planned(FAMILIES["query"], asked, **cost)).explain()

    def _planned(self, family: Family, /, *positional: object, **asked: object) -> Prepared:
        """A plan that is told to whoever asks, and may be all that they want."""
        prepared = self.prepare(family, *positional, **asked)
        self._session.confirm(prepared, self._asker_of)
        return prepared

    def prepare(self, family: Family, /, *positional: object, **asked: object) -> Prepared:
        """Make what is asked of a family ready to be charged and run; spends nothing."""
        facts = self._session.facts(self._asker_of, self._dataset)
        return self._session.prepare(family, family.values(*positional, **asked), facts)

    def answer(
        self,
        family: Family,
        prepared: Prepared,
        *,
        request_id: str | None = None,
        gate: ReleaseGate | None = None,
    ) -> Any:
        """Charge and answer what was prepared; with a `gate` attack it before it is given."""
        who = self._asker_of
        return self._session.run(family, prepared, who, request_id=request_id, gate=gate)

    def left_after(self, prepared: Prepared) -> tuple[Mapping[str, float], str]:
        """What would be left once this was charged, for programs and for people."""
        return self._session.left_after(prepared, self._asker_of)

    def check_all(self, wanted: Sequence[Prepared]) -> Event | None:
        """What several of these cost the owner together, or a refusal; nothing is charged."""
        return self._session.check_all(wanted, self._asker_of)

    def owners_rows(self) -> AbstractContextManager[Dataset]:
        """The rows themselves, for the owner's own look; refused to any other principal."""
        return self._session.owners_rows(self._dataset, self._asker_of)

    def _ask(
        self, name: str, /, *positional: object, request_id: str | None = None, **asked: object
    ) -> Any:
        """Answer what a family is asked; its module says what comes back."""
        family = FAMILIES[name]
        return self.answer(
            family, self.prepare(family, *positional, **asked), request_id=request_id
        )

    if not TYPE_CHECKING:  # else every misspelt method would pass for one

        def __getattr__(self, name: str) -> Any:
            """The method of a family that has no words of its own here."""
            if name not in FAMILIES:
                raise AttributeError(f"{type(self).__name__!r} has no method {name!r}")
            return FAMILIES[name].method(self._ask)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *FAMILIES})
