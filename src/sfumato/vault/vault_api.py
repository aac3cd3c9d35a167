"""What may be asked of a vault, whether it is a folder at hand or a server elsewhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.report.display import Shown
from sfumato.vault.families import FAMILIES
from sfumato.vault.principals import OWNER
from sfumato.vault.private import Private, Questions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from sfumato.methods.publish.kinds import Publication
    from sfumato.methods.query.answer.explain import Explanation
    from sfumato.operations.fields import Request
    from sfumato.operations.principals import Principals
    from sfumato.operations.tokens import Tokens
    from sfumato.vault.answer import Answer
    from sfumato.vault.options import QueryCost, QueryOptions, SynthesisOptions
    from sfumato.vault.publish_family import Published
    from sfumato.vault.query_family import Asked
    from sfumato.vault.session import AskerOf, Asking
    from sfumato.vault.synth_result import Synthesized


class AnyVault(Shown, ABC):
    """Every question that a vault takes, by the session that answers and by who asks."""

    _session: Asking

    @property
    @abstractmethod
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets."""

    @abstractmethod
    def accounts(self, *, principal: str | None = None) -> list[dict[str, Any]]:
        """A principal's accounts: each budget, what was spent, what one more question may cost."""

    @abstractmethod
    def _call(self, request: type[Request], operator: str = OWNER, /, **values: Any) -> Any:
        """Do what a request asks, here or at the server."""

    @cached_property
    def people(self) -> Principals:
        """The principals: who may query the vault, with which budgets."""
        from sfumato.operations.principals import Principals  # questions start without it

        return Principals(self._call)

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens by which a server recognizes principals."""
        from sfumato.operations.tokens import Tokens

        return Tokens(self._call)

    @abstractmethod
    def _asking(self, principal: str | None, purpose: str | None) -> AskerOf:
        """Who asks, and who pays."""

    def publish(
        self,
        kind: str,
        name: str,
        *,
        columns: Sequence[str] | str | None = None,
        principal: str | None = None,
        purpose: str | None = None,
        request_id: str | None = None,
        **asked: Any,
    ) -> Published:
        """Publish statistics of a data set, as `Private.publish` does."""
        private = self.private(name, principal=principal, purpose=purpose)
        return private.publish(kind, columns=columns, request_id=request_id, **asked)

    def plan(
        self,
        kind: str,
        name: str,
        *,
        columns: Sequence[str] | str | None = None,
        principal: str | None = None,
        **asked: Any,
    ) -> Publication:
        """Say what `publish`, asked the same, would choose and how far off it would be, free."""
        return self.private(name, principal=principal).plan(kind, columns=columns, **asked)

    def synthesize(
        self,
        name: str,
        *,
        principal: str | None = None,
        purpose: str | None = None,
        request_id: str | None = None,
        **asked: Unpack[SynthesisOptions],
    ) -> Synthesized:
        """Make up a table in the form of a data set's, as `Private.synthesize` does."""
        private = self.private(name, principal=principal, purpose=purpose)
        return private.synthesize(request_id=request_id, **asked)

    def query(
        self,
        asked: Asked,
        *,
        principal: str | None = None,
        purpose: str | None = None,
        **options: Unpack[QueryOptions],
    ) -> Answer:
        """Answer a question about any data sets of the vault, as `Questions.query` does."""
        return self.questions(principal=principal, purpose=purpose).query(asked, **options)

    def explain(
        self, asked: Asked, *, principal: str | None = None, **cost: Unpack[QueryCost]
    ) -> Explanation:
        """Say what a question would cost and how far its answer would be off; spends nothing."""
        return self.questions(principal=principal).explain(asked, **cost)

    def questions(self, *, principal: str | None = None, purpose: str | None = None) -> Questions:
        """What a principal may ask of all data sets, for one purpose."""
        return Questions(self._session, self._asking(principal, purpose))

    def private(
        self, name: str, *, principal: str | None = None, purpose: str | None = None
    ) -> Private:
        """One private data set of the vault, to ask and to publish from."""
        asker_of = self._asking(principal, purpose)
        private = Private(self._session, asker_of, arguments.text(name, "name"))
        _ = private.schema  # refuses a name that is none of a private data set
        return private

    if not TYPE_CHECKING:  # else every misspelt method would pass for one

        def __getattr__(self, name: str) -> Any:
            """The method of a family that names its data sets and has no words of its own here."""
            if name not in FAMILIES or FAMILIES[name].of_dataset:
                raise AttributeError(f"{type(self).__name__!r} has no method {name!r}")
            return getattr(self.questions(), name)

    def __dir__(self) -> list[str]:
        ours = {name for name, one in FAMILIES.items() if not one.of_dataset}
        return sorted({*super().__dir__(), *ours})
