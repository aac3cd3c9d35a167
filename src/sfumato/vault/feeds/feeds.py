"""The feeds of a vault: add, list, read, stop and share them; a worker answers their periods.

The owner's decision is a record of the ledger, and the ledger's answer under a period's request id
shows that the period was answered. There is no other count of periods that could contradict the
ledger, and a clock that is set back answers no period twice. Decisions `charge-order` and `feeds`.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfumato import arguments
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SfumatoError, option
from sfumato.methods.stream.catalogue import AUTO
from sfumato.privacy.ledger.records import Amendment
from sfumato.vault.config import asking
from sfumato.vault.config import check_name as check_written
from sfumato.vault.failure_log import note_failure
from sfumato.vault.families import FAMILIES
from sfumato.vault.feeds.feed import CONTINUAL, NEVER, Feed, FeedItem
from sfumato.vault.feeds.period_answers import Answering
from sfumato.vault.jobs.job import asked_plainly, plain_values
from sfumato.vault.principals import public_principal
from sfumato.vault.releases import PUBLIC, check_readers

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from sfumato.privacy.ledger.records import BookState
    from sfumato.vault.principals import Principal
    from sfumato.vault.vault import Vault


_POLL_SECONDS = 5.0


class FeedWorker:
    """A thread that answers due periods again and again and reports failures to the operator."""

    def __init__(self, work: Callable[[], int], tell_operator: Callable[[str], None]) -> None:
        self._work, self._tell = work, tell_operator
        self._thread: threading.Thread | None = None
        self._stopping, self._wake = threading.Event(), threading.Event()

    def start(self) -> None:
        """Begin, in a thread of its own."""
        self._stopping.clear()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Begin no further period, and wait at most `seconds` for the one in work."""
        self._stopping.set()
        self._wake.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def wake(self) -> None:
        """Look for due periods now and not only after the pause."""
        self._wake.set()

    def _serve(self) -> None:
        while not self._stopping.is_set():
            try:
                self._work()
            except SfumatoError as error:  # the ledger is away, or the vault is being edited
                self._tell(f"{error.code}: {error.detail or error.message}")
            except Exception as error:  # noqa: BLE001  a worker outlives whatever a feed does
                self._tell(f"{type(error).__name__}: {error}")
            self._wake.wait(_POLL_SECONDS)
            self._wake.clear()


_OF_STREAMS = ("method", "window", "days", "by")
TOPIC = "feed"
"""The records of the ledger that say which feeds there are."""


class FeedRegistry:
    """The feeds of a vault. A principal sees their own and those that were opened to them."""

    def __init__(self, vault: Vault) -> None:
        self._vault, self._answering = vault, Answering(vault)

    def plan(
        self,
        name: str,
        sql: str | None = None,
        *,
        column: str,
        every: str,
        family: str | None = None,
        dataset: str | None = None,
        begins: date | str | None = None,
        ends: date | str | None = None,
        delay: int = 0,
        principal: str | None = None,
        purpose: str | None = None,
        to: Sequence[str] | str = (),
        **asked: object,
    ) -> Feed:
        """Plan a feed: return what `add` would add with the same arguments, with its cost. Free.

        Parameters
        ----------
        sql
            The query of each period; or give `family` and `dataset`.
        column
            A column of dates with declared bounds: it decides the period of a row.
        every
            day, week, month, quarter, year, or days such as "10d".
        family, dataset
            "publish", "synthesize" or "above" with the options of its method; or "continual", which
            counts after each period the rows from the beginning on, for one price. Its options are
            `method` (auto, tree, honaker, root, ...), `window` (the last periods alone), `days` (of
            each person in at most so many) and `by` (for each value of a column).
        begins, ends
            The first and last day, by default the declared bounds of the column. A continual feed
            may have "never" for `ends`.
        delay
            Days after a period's end before it is answered, 0 to 3660.
        principal, purpose
            Who pays and reads; the purpose to which people agreed.
        to
            Principals who may read it, or "public".
        **asked
            `epsilon` or `rho`: the price of each period, of a continual feed that of all; options.

        Returns
        -------
        Feed
            The feed with its periods and cost.

        Raises
        ------
        ParameterError
            For options, days or columns that do not fit.
        """
        check_written(arguments.text(name, "name"), "A feed")
        kind, plain = _asked(sql, family, dataset, asked)
        draft = Feed(
            name=name,
            family=kind,
            dataset=arguments.maybe_text(dataset, "dataset") or "",
            column=arguments.text(column, "column"),
            every=arguments.text(every, "every"),
            begins=date.min,
            ends=date.max,
            is_unending=_never(ends, kind),
            delay=_delay(delay),
            asked=plain,
            cost={},
            principal=asking(principal),
            purpose=arguments.maybe_text(purpose, "purpose"),
            to=self._readers(to),
        )
        placed = self._answering.placed(draft, _day(begins, "begins"), _day(ends, "ends"))
        prepared = self._answering.prepared(placed)
        return self._answering.priced(replace(placed, cost=prepared.parameters["cost"]), prepared)

    def add(
        self,
        name: str,
        sql: str | None = None,
        *,
        operator: str,
        **options: Any,
    ) -> Feed:
        """Add a feed. It takes what `plan` takes; periods that are over already are answered too.

        Raises
        ------
        BudgetError
            `budget_exhausted` if the budgets could not pay for all periods now.
        """
        feed = self.plan(name, sql, **options)
        prepared = self._answering.prepared(feed)
        # A feed that would stop halfway for want of budget is refused now, though nothing is
        # reserved.
        times = 1 if feed.is_continual else len(feed.periods)
        self._answering.check_affordable(feed, prepared, [prepared.charged] * times)

        def decide(book: BookState) -> Amendment:
            if feed.name in book.of(TOPIC):
                raise ParameterError(
                    "name_taken",
                    f"There is a feed {quoted(feed.name)} already, and its periods are paid for "
                    "under that name. Choose another name.",
                )
            return Amendment(records={(TOPIC, feed.name): feed.to_json()})

        self._vault.ledger.amend(decide, operator=arguments.text(operator, "operator"))
        if "_worker" in self.__dict__:
            self._worker.wake()
        return feed

    def list(self, *, principal: str | None = None) -> Sequence[Feed]:
        """The feeds that a principal may read, by name; all for the owner."""
        person = self._vault.principal_registry.admitted(asking(principal))
        records = self._vault.ledger.records(TOPIC)
        feeds = [Feed.from_json(records[name]) for name in sorted(records)]
        return [feed for feed in feeds if _may(feed, person)]

    def get(self, name: str, *, principal: str | None = None) -> Feed:
        """A feed by its name; one that the principal may not read is reported as unknown."""
        feed = self.look_up(name, principal=principal)
        if feed is None:
            known = [readable.name for readable in self.list(principal=principal)]
            raise ParameterError(
                "feed_unknown",
                f"There is no feed {quoted(name)} for you; {suggestion(name, known)}",
            )
        return feed

    def look_up(self, name: str, *, principal: str | None = None) -> Feed | None:
        """A feed by its name, or None where there is none for this principal."""
        person = self._vault.principal_registry.admitted(asking(principal))
        record = self._vault.ledger.records(TOPIC).get(arguments.text(name, "name"))
        feed = None if record is None else Feed.from_json(record)
        return feed if feed is not None and _may(feed, person) else None

    def read(
        self, name: str, *, principal: str | None = None, limit: int | None = None
    ) -> Sequence[FeedItem]:
        """The items of a feed in order of time; the newest `limit` of them."""
        most = None if limit is None else arguments.whole(limit, "limit")
        if most is not None and most < 1:
            raise ParameterError(
                "parameter_out_of_range",
                f"limit must be at least 1, not {most}.",
                parameter="limit",
                given=most,
            )
        return self._answering.read(self.get(name, principal=principal), most)

    def state(self, feed: Feed) -> dict[str, Any]:
        """How many periods are over, answered or lost, and the last failure."""
        return self._answering.state(feed)

    def expected(self, feed: Feed) -> dict[str, float] | None:
        """The standard deviation of the first step and the last of a continual feed, if known."""
        return self._answering.expected(feed)

    def described(self, feed: Feed, *, principal: str | None = None) -> dict[str, Any]:
        """A feed as JSON for one principal; only the owner sees who pays and who reads."""
        person = self._vault.principal_registry.admitted(asking(principal))
        summary = {**feed.to_json(), "whole_cost": feed.whole_cost, **self.state(feed)}
        if not person.is_owner:
            for hidden in (
                "to",
                "trouble",
                *(("principal",) if feed.principal != person.name else ()),
            ):
                summary.pop(hidden)
        return summary

    def stop(self, name: str, *, operator: str) -> Feed:
        """Answer no period that ends from now on; items of earlier periods stay."""
        return self._changed(
            name, operator, lambda feed, moment: replace(feed, stopped=feed.stopped or moment)
        )

    def open_to(self, name: str, to: Sequence[str] | str, *, operator: str) -> Feed:
        """Set the readers of a feed: principals by name, or "public"; others lose access."""
        readers = self._readers(to)
        return self._changed(name, operator, lambda feed, _: replace(feed, to=readers))

    @property
    def public(self) -> Principal | None:
        """The principal of readers without a token; None if the owner admits none."""
        vault = self._vault
        return public_principal(vault.principal_registry.list(), vault.ledger.decided().time)

    def work(self) -> int:
        """Answer every period that is over and not answered yet; return their number."""
        return sum(self._answering.catch_up(feed) for feed in self.list())

    @cached_property
    def _worker(self) -> FeedWorker:
        folder = self._vault.config.folder
        return FeedWorker(self.work, lambda message: note_failure(folder, "feeds", message))

    def start(self) -> None:
        """Begin to answer periods when they are over, in a thread of this process."""
        self._worker.start()

    def stop_working(self, seconds: float = 30) -> None:
        """Begin no further period, and wait at most `seconds` for the one in work."""
        # A worker that was never needed is not made in order to stop it.
        if "_worker" in self.__dict__:
            self._worker.stop(seconds)

    def close(self) -> None:
        """Stop the worker and close the store of streams."""
        self.stop_working()
        self._answering.close()

    def _changed(self, name: str, operator: str, change: Any) -> Feed:
        self.get(name)

        def decide(book: BookState) -> Amendment:
            # Decided on the record as it stands under the ledger's lock: a change beside this one
            # is not undone.
            feed = change(Feed.from_json(book.of(TOPIC)[name]), book.time.replace(microsecond=0))
            return Amendment(records={(TOPIC, name): feed.to_json()})

        written = self._vault.ledger.amend(decide, operator=arguments.text(operator, "operator"))
        record: Any = written.records[TOPIC, name]
        return Feed.from_json(record)

    def _readers(self, to: Sequence[str] | str) -> tuple[str, ...]:
        names = sorted(
            set(arguments.names(to.split(",") if isinstance(to, str) else to, "to") if to else ())
        )
        check_readers(names, self._vault.principal_registry)
        return tuple(names)


def _may(feed: Feed, person: Principal) -> bool:
    """Whether a principal may read a feed: as their own, or as a download."""
    if person.is_owner or feed.principal == person.name:
        return True
    return "download" in person.shapes and (PUBLIC in feed.to or person.name in feed.to)


def _asked(
    sql: str | None, family: str | None, dataset: str | None, asked: Mapping[str, object]
) -> tuple[str, dict[str, Any]]:
    """The family that is asked, and what it is asked in plain values."""
    if (sql is None) is (family is None) or (dataset is None and family is not None):
        raise ParameterError(
            "parameter_missing",
            "A feed asks one thing: a question in SQL, or what a family such as "
            f"{option('family', 'publish')} or {option('continual', True)} does with a "
            f"{option('dataset')}.",
            parameter="sql",
        )
    if family is None:
        _check_question(asked)
        return "query", plain_values({"asked": arguments.text(sql, "sql"), **asked}, ())
    if arguments.text(family, "family") == CONTINUAL:
        return CONTINUAL, {"method": AUTO, **plain_values(asked, ())}
    return family, asked_plainly(family, asked)


def _check_question(asked: Mapping[str, object]) -> None:
    """Refuse what a question in SQL does not take, such as what a continual feed does."""
    takes = (*FAMILIES["query"].cost, "weights")
    for name in asked:
        if name not in takes:
            of_others = (
                f", which belongs to {option('continual', True)}" if name in _OF_STREAMS else ""
            )
            raise ParameterError(
                "option_unknown",
                f"A feed of a question in SQL takes no {quoted(name)}{of_others}. Leave it out. "
                f"Besides its days it takes {', '.join(takes)}.",
            )


def _delay(days: object) -> int:
    delay_days = arguments.whole(days, "delay")
    if not 0 <= delay_days <= 3660:
        raise ParameterError(
            "parameter_out_of_range",
            f"{option('delay')} must be from 0 to 3660 days, not {delay_days}.",
            parameter="delay",
            given=delay_days,
        )
    return delay_days


def _never(ends: date | str | None, family: str) -> bool:
    """Whether a feed is to have no end, which only one price for all periods allows."""
    if ends == NEVER and family != CONTINUAL:
        raise ParameterError(
            "feed_period_invalid",
            "A feed that never ends would cost more than any budget, because each of its periods "
            f"costs. Give {option('ends')} a day, or count on by {option('continual', True)}, "
            "which has one price.",
        )
    return ends == NEVER


def _day(day: date | str | None, name: str) -> date | None:
    if day is None or (name == "ends" and day == NEVER):
        return None
    if type(day) is date:
        return day
    try:
        return date.fromisoformat(arguments.text(day, name))
    except ValueError:
        raise ParameterError(
            "time_malformed",
            f"{option(name)} must be a day such as 2026-01-31, not {quoted(str(day))}.",
        ) from None
