"""`AnyVault`: the methods of a vault, shared by `sf.open` (local) and `sf.connect` (remote)."""

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
    """The methods of a vault. Queries go to its session; changes are operations, run by `_call`."""

    _session: Asking

    @property
    @abstractmethod
    def datasets(self) -> tuple[str, ...]:
        """The names of its data sets."""

    @property
    @abstractmethod
    def kept(self) -> tuple[Path, ...]:
        """The files in use, which no saved answer may overwrite."""

    @abstractmethod
    def _call(self, request: type[Request], operator: str = OWNER, /, **values: Any) -> Any:
        """Run a request here, or send it to the server."""

    @cached_property
    def people(self) -> Principals:
        """The principals: who may query the vault, with which budget, until when."""
        from sfumato.operations.principals import Principals  # queries start faster without it

        return Principals(self._call)

    @cached_property
    def tokens(self) -> Tokens:
        """The tokens by which a server recognizes principals."""
        from sfumato.operations.tokens import Tokens

        return Tokens(self._call)

    @cached_property
    def programs(self) -> Programs:
        """The approved programs, which other principals than the owner may run."""
        from sfumato.operations.programs import Programs

        return Programs(self._call)

    @cached_property
    def feeds(self) -> Feeds:
        """The feeds: queries that the vault answers anew for every period."""
        from sfumato.operations.feeds import Feeds

        return Feeds(self._call)

    def accounts(self, *, principal: str | None = None) -> list[dict[str, Any]]:
        """List a principal's accounts.

        Parameters
        ----------
        principal
            Whose accounts; default: your own, which for an owner are all. Only owners may name
            another.

        Returns
        -------
        list of dict
            For each account its budget, what was spent, and what one more query may cost.
        """
        from sfumato.operations.ledger import AccountList, ShowAccounts

        listed: AccountList = self._call(ShowAccounts, principal=principal)
        return [account.to_json() for account in listed.accounts]

    def verify(self) -> dict[str, Any]:
        """Check every entry of the ledger against the one before it, and recompute every charge.

        Returns
        -------
        dict
            The number of entries and the head of the ledger.

        Raises
        ------
        LedgerError
            If the ledger is not whole.
        """
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
        """Add a data set with a budget for the people in it, or a public table about nobody.

        Parameters
        ----------
        name
            The name of the data set in queries.
        source
            A path, the address of a database, or a table of `sf.read`. For a vault behind a server:
            a file below the folder of `sfumato serve --data`.
        schema
            The declared columns: an `sf.Schema`, or a TOML file of this machine. A schema in memory
            is written into the folder of the vault.
        unit
            What one person can change: `sf.Rows()`, `sf.Entity(...)`, "row", or the column that
            names the person. Default: the unit of the schema.
        max_rows, max_groups
            The largest number of rows of one person that are used, and of groups of one query in
            which a person counts.
        epsilon, delta
            The budget that all answers together may spend.
        population
            The people of the data set. Data sets with the same population share one budget.
        consent
            A column: only people whose rows all are true in it are counted.
        purposes
            What people are asked to agree to. Every query then names one purpose and counts only
            people who agreed to it; see `consent`.
        public
            Whether the table is about nobody, so that its rows need no protection.
        unique
            For a public table: columns that identify its rows.

        Raises
        ------
        ParameterError
            If the name is taken, or a parameter does not fit the kind of data set.
        SchemaError
            If the schema does not fit the table.

        Example
        -------
        >>> vault = sf.open("clinic")  # doctest: +SKIP
        >>> vault.add("visits", "visits.parquet", "visits.toml", epsilon=3)  # doctest: +SKIP
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
        """Write every entry of the ledger as JSONL, for an independent audit; for owners.

        Parameters
        ----------
        path
            The file to write.
        overwrite
            Whether to replace an existing file. Files of the vault are never replaced.
        """
        from sfumato.operations.ledger import ExportLedger, LedgerPage

        target = arguments.path(path, "path")
        check_target(target, overwrite=arguments.flag(overwrite, "overwrite"), kept=self.kept)
        with whole(target, overwrite=overwrite) as new, new.open("w", encoding="utf-8") as stream:
            # Page by page: a ledger may be larger than one response of a server.
            request: ExportLedger | None = ExportLedger()
            while request is not None:
                page: LedgerPage = self._call(ExportLedger, after=request.after)
                stream.write(page.lines)
                request = page.rest(request)

    def limit(
        self, account: str, *, epsilon: Number, delta: Number = 0, operator: str = OWNER
    ) -> None:
        """Give an account another budget; for owners.

        Parameters
        ----------
        account
            The population whose budget it is.
        epsilon, delta
            The new budget. It counts what was already spent.
        operator
            Who decided the change; the ledger records it.
        """
        from sfumato.operations.ledger import SetLimit

        self._call(SetLimit, operator, account=account, epsilon=epsilon, delta=delta)

    @property
    def snapshot(self) -> int:
        """The snapshot number: within it, a repeated query gets its stored answer."""
        from sfumato.operations.snapshots import ShowSnapshot, Snapshot

        shown: Snapshot = self._call(ShowSnapshot)
        return shown.snapshot

    def raise_snapshot(self, to: int | None = None) -> int:
        """Raise the snapshot after the data changed: repeated queries get new answers.

        New answers are charged. Raise it on a schedule: a raise because of one person's change
        would show that the person changed.

        Parameters
        ----------
        to
            The new number; default: the next.

        Returns
        -------
        int
            The new number.
        """
        from sfumato.operations.snapshots import RaiseSnapshot, Snapshot

        # The request names the number, so sending it again does not raise it twice.
        number = self.snapshot + 1 if to is None else to
        raised: Snapshot = self._call(RaiseSnapshot, to=number)
        return raised.snapshot

    @abstractmethod
    def _asking(self, principal: str | None, purpose: str | None) -> AskerOf:
        """Who asks, for which purpose, and which accounts pay."""

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
        """Publish statistics of a data set; the parameters are those of `Private.publish`.

        Parameters
        ----------
        kind, columns, request_id, **asked
            As for `Private.publish`.
        name
            The data set.
        principal
            Who asks and whose budget is charged; default: the owner, or the holder of the token.
        purpose
            The purpose of the request, for data sets that ask for consent.

        Returns
        -------
        Published
            The noisy tables with their errors.
        """
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
        """Plan a publication as `Private.plan` does: expected error, nothing charged."""
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
        """Generate a synthetic table; the parameters are those of `Private.synthesize`.

        Parameters
        ----------
        name
            The data set.
        principal, purpose
            As for `publish`.
        request_id, **asked
            As for `Private.synthesize`.

        Returns
        -------
        Synthesized
            The synthetic table and its model.
        """
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
        """Answer an SQL query about the data sets of the vault, charged to their budgets.

        Parameters
        ----------
        asked
            One SELECT statement, or a query built with `sf.table`. It may join several data sets.
        principal, purpose
            As for `publish`.
        **options
            `epsilon`, `rho`, `delta`, `weights` and `request_id`, as for `Questions.query`.

        Returns
        -------
        Answer
            The noisy table, its errors, its guarantee and what was charged.

        Raises
        ------
        QueryError
            If the query is not supported or names something unknown.
        BudgetError
            If the budget left is too small.
        PolicyError
            If the principal may not ask it.

        Example
        -------
        >>> with sf.open("clinic") as vault:  # doctest: +SKIP
        ...     vault.query("SELECT sex, COUNT(*) AS n FROM visits GROUP BY sex", epsilon="0.1")
        """
        return self.questions(principal=principal, purpose=purpose).query(asked, **options)

    def explain(
        self, asked: Asked, *, principal: str | None = None, **cost: Unpack[QueryCost]
    ) -> Explanation:
        """Forecast the cost and the expected error of a query; nothing is charged."""
        return self.questions(principal=principal).explain(asked, **cost)

    def questions(self, *, principal: str | None = None, purpose: str | None = None) -> Questions:
        """The queries of one principal for one purpose, about all data sets."""
        return Questions(self._session, self._asking(principal, purpose))

    def private(
        self, name: str, *, principal: str | None = None, purpose: str | None = None
    ) -> Private:
        """One private data set of the vault, to query, publish, synthesize and learn from.

        Parameters
        ----------
        name
            The data set.
        principal, purpose
            As for `publish`; they hold for all requests to what is returned.

        Raises
        ------
        QueryError
            `dataset_unknown` if there is no such private data set.
        """
        asker_of = self._asking(principal, purpose)
        private = Private(self._session, asker_of, arguments.text(name, "name"))
        _ = private.schema  # raises here, not at the first query, if there is no such data set
        return private
