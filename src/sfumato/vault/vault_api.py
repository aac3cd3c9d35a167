"""What may be asked of a vault, whether it is a folder at hand or a server elsewhere."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.filesystem import check_target, whole
from sfumato.report.display import Shown
from sfumato.vault.principals import OWNER
from sfumato.vault.private import Private, Questions

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Unpack

    from sfumato.data.schema.schema import Schema
    from sfumato.data.schema.unit import Unit
    from sfumato.exact_numbers import Number
    from sfumato.methods.publish.publication import Publication
    from sfumato.methods.query.answer.explain import Explanation
    from sfumato.operations.feeds import Feeds
    from sfumato.operations.fields import Request
    from sfumato.operations.principals import Principals
    from sfumato.operations.programs import Programs
    from sfumato.operations.tokens import Tokens
    from sfumato.release.open_table import Table
    from sfumato.vault.answer import Answer
    from sfumato.vault.method_options import (
        KindName,
        PublishOptions,
        QueryCost,
        QueryOptions,
        SynthesisOptions,
    )
    from sfumato.vault.publications import Published
    from sfumato.vault.queries import Asked
    from sfumato.vault.session import AskerOf, Asking
    from sfumato.vault.syntheses import Synthesized


class AnyVault(Shown, ABC):
    """Every question that a vault takes, by the session that answers and by who asks."""

    _session: Asking

    @property
    @abstractmethod
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets."""

    @property
    @abstractmethod
    def kept(self) -> tuple[Path, ...]:
        """The files in use; no answer may overwrite them."""

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

    @cached_property
    def programs(self) -> Programs:
        """The programs that others than the owner may run."""
        from sfumato.operations.programs import Programs

        return Programs(self._call)

    @cached_property
    def feeds(self) -> Feeds:
        """The feeds: questions that are answered for every period."""
        from sfumato.operations.feeds import Feeds

        return Feeds(self._call)

    def accounts(self, *, principal: str | None = None) -> list[dict[str, Any]]:
        """List a principal's accounts: each budget, what was spent, what one question may cost.

        Without a name they are your own; those of an owner are all. Only owners may name another.
        """
        from sfumato.operations.ledger import AccountList, ShowAccounts

        found: AccountList = self._call(ShowAccounts, principal=principal)
        return [account.to_json() for account in found.accounts]

    def verify(self) -> dict[str, Any]:
        """Walk every entry of the ledger and count them; raises where it is not whole."""
        from sfumato.operations.ledger import Verified, VerifyLedger

        verified: Verified = self._call(VerifyLedger)
        return verified.to_json()

    def add(
        self,
        name: str,
        source: str | Path | Table,
        schema: str | Path | Schema | None = None,
        *,
        unit: Unit | str | None = None,
        max_rows: int | None = None,
        max_groups: int | None = None,
        epsilon: Number | None = None,
        delta: Number = 0,
        population: str | None = None,
        consent: str | None = None,
        purposes: Sequence[str] | None = None,
        public: bool = False,
        unique: Sequence[str | Sequence[str]] = (),
    ) -> None:
        """Add a data set with a budget for the people in it, or a `public` table about nobody.

        The unit is the schema's unless given here: sf.Rows(), sf.Entity(...), "row" or a column. A
        schema that is only in memory is written into the vault's folder. Data sets about the same
        people share one budget by their `population`. With `purposes`, every question names one,
        and only people are seen who agreed to it: see `consent`.

        Of a vault behind a server the source is a file below the folder that 'sfumato serve --data'
        was given, and a schema file is one of this machine.
        """
        from sfumato.operations.datasets import AddDataset, AddedDataset
        from sfumato.vault.registration import declared_of

        address, declared, column = declared_of(name, source, schema, unit)
        added: AddedDataset = self._call(
            AddDataset,
            name=name,
            source=address,
            schema=declared,
            unit=column,
            max_rows=max_rows,
            max_groups=max_groups,
            epsilon=epsilon,
            delta=delta,
            population=population,
            consent=consent,
            purposes=purposes,
            public=public,
            unique=unique,
        )
        for warning in added.warnings:
            warnings.warn(warning, stacklevel=2)

    def export(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write every entry of the ledger as JSONL, for an independent audit; for owners."""
        from sfumato.operations.ledger import ExportLedger, LedgerPage

        target = arguments.path(path, "path")
        check_target(target, overwrite=arguments.flag(overwrite, "overwrite"), kept=self.kept)
        with whole(target, overwrite=overwrite) as new, new.open("w", encoding="utf-8") as stream:
            request: ExportLedger | None = ExportLedger()
            while request is not None:
                page: LedgerPage = self._call(ExportLedger, after=request.after)
                stream.write(page.lines)
                request = page.rest(request)

    def limit(
        self, account: str, *, epsilon: Number, delta: Number = 0, operator: str = OWNER
    ) -> None:
        """Give an account another budget; `operator` is who decided it."""
        from sfumato.operations.ledger import SetLimit

        self._call(SetLimit, operator, account=account, epsilon=epsilon, delta=delta)

    @property
    def snapshot(self) -> int:
        """The number within which a stored answer is given again; raise it for new data."""
        from sfumato.operations.snapshots import ShowSnapshot, Snapshot

        shown: Snapshot = self._call(ShowSnapshot)
        return shown.snapshot

    def raise_snapshot(self, to: int | None = None) -> int:
        """Give no stored answer again, because there is new data; return the new number.

        The number is the next one, or `to`. Raise it on a schedule, and never because of what one
        person changed.
        """
        from sfumato.operations.snapshots import RaiseSnapshot, Snapshot

        # The request names the number, so sending it again does not raise it twice.
        number = self.snapshot + 1 if to is None else to
        raised: Snapshot = self._call(RaiseSnapshot, to=number)
        return raised.snapshot

    @abstractmethod
    def _asking(self, principal: str | None, purpose: str | None) -> AskerOf:
        """Who asks, and who pays."""

    def publish(
        self,
        kind: KindName | str,
        name: str,
        *,
        columns: Sequence[str] | str | None = None,
        principal: str | None = None,
        purpose: str | None = None,
        request_id: str | None = None,
        **asked: Unpack[PublishOptions],
    ) -> Published:
        """Publish statistics of a data set, as `Private.publish` does."""
        private = self.private(name, principal=principal, purpose=purpose)
        return private.publish(kind, columns=columns, request_id=request_id, **asked)

    def plan(
        self,
        kind: KindName | str,
        name: str,
        *,
        columns: Sequence[str] | str | None = None,
        principal: str | None = None,
        **asked: Unpack[PublishOptions],
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
