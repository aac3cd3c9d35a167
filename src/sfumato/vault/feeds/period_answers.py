"""Answer the periods of a feed: each once, in order, under its own request id.

A period that a killed process left is continued where it stopped (decision `charge-order`). A
period that is lost for good, as with a host that does not come back, is noted and never charged
again.

A continual feed is charged once and stepped once a period, in order. A step that the ledger records
is never repeated. If a process was killed between the two writes, the stream's state is one step
ahead of the ledger; then the ledger gets the figures of that state. How often each person counted
is stored too, also of people who are erased from the table. Decision `streams`.
"""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from sfumato.data.counting.contribution import count_cells, rows_of_people
from sfumato.data.engines.base import column
from sfumato.data.engines.malformed_cells import as_spelled
from sfumato.data.schema.column import Kind
from sfumato.data.schema.domain import Bounds
from sfumato.data.schema.names import quoted, suggestion
from sfumato.errors import ParameterError, SfumatoError, option
from sfumato.methods.method import Plan
from sfumato.methods.stream.catalogue import AUTO
from sfumato.privacy.ledger.records import Amendment
from sfumato.release.codec import from_bytes
from sfumato.vault.families import FAMILIES
from sfumato.vault.feeds.feed import CONTINUAL, Feed, FeedItem
from sfumato.vault.feeds.step_store import StepStore, lost_state
from sfumato.vault.streams import COSTS, Arrival, Reached, StreamPlan, figures_record, plan_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sqlglot import exp

    from sfumato.arrays import IntArray
    from sfumato.data.schema.unit import Unit
    from sfumato.methods.method import AnswerSize, Dataset
    from sfumato.methods.stream.request import Participation
    from sfumato.privacy.accounting.events import Event
    from sfumato.privacy.accounting.purchase import Charged
    from sfumato.privacy.ledger.chain import ChargeRequest
    from sfumato.privacy.ledger.records import BookState
    from sfumato.privacy.noise.entropy import Entropy
    from sfumato.release.release import Guarantee, Release
    from sfumato.vault.feeds.feed import Period
    from sfumato.vault.feeds.step_store import Reserved
    from sfumato.vault.session import AskerOf, Facts
    from sfumato.vault.vault import Vault


@dataclass(frozen=True)
class PeriodRows:
    """The rows of a feed's data set that belong to a period."""

    feed: Feed
    period: Period

    def of(self, plan: Plan) -> Plan:
        """The plan for all rows as one for these alone."""
        return _PeriodPlan(plan, self)

    @property
    def record(self) -> dict[str, Any]:
        """The feed, column and days as the release's provenance records them."""
        return {"name": self.feed.name, "by": self.feed.column, **self.period.to_json()}

    def gave(self, release: Release) -> bool:
        """Whether a release was computed from these rows, by its own provenance.

        Declarations may have changed since, and the principal who paid may be gone.
        """
        return release.provenance.parameters.get("feed") == self.record


@dataclass(frozen=True, repr=False)
class _PeriodPlan(Plan):
    """A plan whose method sees the rows of a period.

    Rows are chosen by their own declared value, so a person's rows are some of those they had: the
    privacy unit bounds them as it did, and the method's guarantee holds as it is.
    """

    plan: Plan
    period_rows: PeriodRows

    @property
    def name(self) -> str:
        """The method's name."""
        return self.plan.name

    @property
    def datasets(self) -> tuple[str, ...]:
        """The data sets it reads."""
        return self.plan.datasets

    @property
    def public(self) -> tuple[str, ...]:
        """The data sets about nobody that it reads too."""
        return self.plan.public

    @property
    def event(self) -> Event:
        """The cost: that of the method on all rows."""
        return self.plan.event

    @property
    def answer_size(self) -> AnswerSize | None:
        """At most how large the answer is: no larger than that of all rows."""
        return self.plan.answer_size

    @property
    def parameters(self) -> Mapping[str, Any]:
        """Everything that determines the answer."""
        return {**self.plan.parameters, "feed": self.period_rows.record}

    @property
    def guarantee(self) -> Guarantee:
        """What the release promises: the same as for all rows."""
        return self.plan.guarantee

    def run(self, datasets: Mapping[str, Dataset], entropy: Entropy) -> Release:
        """Run the method on the rows of the period."""
        feed, period = self.period_rows.feed, self.period_rows.period
        dataset = datasets[feed.dataset]
        with dataset.engine.view(period.rows(dataset, feed.column)) as rows:
            seen = {**datasets, feed.dataset: replace(dataset, table=rows)}
            release = self.plan.run(seen, entropy)
        parameters = {**release.provenance.parameters, "feed": self.period_rows.record}
        return replace(release, provenance=replace(release.provenance, parameters=parameters))


STEPS = "feed-step"
"""The records that say what each step of a continual feed gave."""
BY = "feed worker"


@dataclass
class StreamFeeds:
    """The streams behind the continual feeds of one vault."""

    vault: Vault

    @cached_property
    def store(self) -> StepStore:
        """The database of their states."""
        return StepStore(self.vault.config)

    def close(self) -> None:
        """Close the database of states."""
        if "store" in self.__dict__:
            self.store.close()

    def prepared(self, feed: Feed, facts: Facts) -> StreamPlan:
        """The plan of a feed's whole stream, by the present declarations."""
        if "method" not in feed.asked:
            raise ParameterError(
                "feed_period_invalid",
                f"The feed {quoted(feed.name)} was begun by an earlier version and cannot go on. "
                "Stop it and begin it anew.",
            )
        offer = {name: feed.asked.get(name) for name in COSTS}
        asked = {k: v for k, v in feed.asked.items() if k not in (*COSTS, "method")}
        periods = None if feed.is_unending else len(feed.periods)
        span = {"every": feed.every, "begins": str(feed.begins), "dates": feed.column}
        stream = plan_stream(
            feed.name, facts, feed.asked["method"], offer, {"periods": periods, **asked}
        )
        return replace(stream, asked=tuple(span.items()))

    def answer(self, feed: Feed, period: Period, plan: StreamPlan, asker_of: AskerOf) -> None:
        """Step the stream for one period, unless the ledger records that step."""
        session, ledger = self.vault.session, self.vault.ledger
        begun = session.answer(plan, asker_of, request_id=feed.request_id(), subset=plan)
        stream, key = begun.entry, (STEPS, f"{feed.name}/{period.name}")
        # The charge, and with it the state before the first step, is found in the ledger each
        # time.
        reached = self.store.reached(stream)
        if reached is None:
            state = json.loads(begun.table.column("state")[0].as_py())
            reached = Reached(0, state, {})
        # In order: a period that was skipped would leave its rows out of every later count.
        if reached.step == period.number - 1:
            cells = StreamCells(plan.by, plan.values)
            days = period.low, period.high
            step = self.reserve(feed, stream, period.number, days, plan.request.people, cells)
            reached = self._stepped(stream, plan, reached, step) or reached
        made_at = ledger.decided().time.isoformat(timespec="seconds")

        def once(book: BookState) -> Amendment:
            # Another process recorded the step meanwhile; its settled state is this one's too.
            if key[1] in book.of(STEPS):
                return Amendment()
            if reached.step != period.number:
                raise lost_state()
            return Amendment(records={key: {**reached.figures, "made": made_at}})

        ledger.amend(once, operator=BY)

    def _stepped(
        self, stream: str, plan: StreamPlan, before: Reached, step: Reserved | None
    ) -> Reached | None:
        """Draw and settle a reserved step; if another process did so, return its result."""
        if step is None:
            return self.store.reached(stream)
        # Words come from the stored tape, so that a second run of the step draws the same noise.
        tape = self.store.tape(stream, step.step)
        state, figures = plan.method.step(before.state, step.counts, tape)
        consent = {"consent": dict(step.consent)} if step.consent else {}
        settled = Reached(step.step, state, {**figures_record(figures), **consent})
        return self.store.settle(stream, settled)

    def reserve(
        self,
        feed: Feed,
        stream: str,
        step: int,
        days: tuple[date, date],
        people: Participation,
        cells: StreamCells,
    ) -> Reserved | None:
        """Reserve a step with the rows between two days, or find the counts of its reservation.

        A step that was killed counts the same again, whatever the table holds by now: its words are
        the same too, and one noise on two counts would tell their difference. None where another
        process is done with the step.
        """
        reserved = self.store.reserved(stream)
        if reserved is not None and reserved.step >= step:
            return reserved if reserved.is_open(step) else None
        session, versions = self.vault.session, dict[str, int]()
        session.store.check_readable((feed.dataset,))
        opened = session.store.together(
            (feed.dataset,), (), purpose=feed.purpose, versions=versions
        )
        with opened as datasets:
            arrival = arrived(datasets[feed.dataset], feed.column, days, people.unit, cells)
        return self.store.reserve(stream, step, arrival, people, consent=versions)

    def items(
        self, plan: StreamPlan, periods: Sequence[Period], steps: Mapping[str, Mapping[str, Any]]
    ) -> list[FeedItem]:
        """The items of some periods."""
        items = []
        for period in periods:
            step = steps[period.name]
            made_at = datetime.fromisoformat(step["made"])
            table, error = plan.table(step["values"]), plan.step_error(step["sd"])
            items.append(FeedItem(period, made_at, table, error, plan.guarantee.statement))
        return items


@dataclass(frozen=True)
class StreamCells:
    """The declared values of a column, each with a count of its own; or one cell for all rows."""

    by: str | None = None
    values: tuple[Any, ...] = ()

    @property
    def count(self) -> int:
        """How many there are."""
        return max(1, len(self.values))

    def positions(self, cell_values: pa.ChunkedArray) -> IntArray:
        """The index of each row's value; -1 for a value that is not declared."""
        positions = {value: at for at, value in enumerate(self.values)}
        return np.array(
            [positions.get(value, -1) for value in cell_values.to_pylist()], dtype=np.int64
        )


def arrived(
    data: Dataset, of: str, days: tuple[date, date], unit: Unit, cells: StreamCells
) -> Arrival:
    """Read the rows of a data set between two days, of each person no more than can count."""
    low, high = days
    if unit.column is None:
        rows_found = data.engine.run(count_cells(data.table, of, low, high, cells.by))
        if cells.by is None:
            return Arrival.of_counts(np.array([rows_found.column(0)[0].as_py()]))
        rows = dict(
            zip(*(counts_column.to_pylist() for counts_column in rows_found.columns), strict=True)
        )
        return Arrival.of_counts(np.array([rows.get(value, 0) for value in cells.values]))
    person = _as_spelled(data, unit.column)
    rows_found = data.engine.run(rows_of_people(data.table, of, unit, low, high, cells.by, person))
    people, numbers = rows_found.column(0), rows_found.column(rows_found.num_columns - 1).to_numpy()
    if cells.by is None:
        rows_of = np.repeat(np.arange(rows_found.num_rows), numbers.astype(np.int64))
        return Arrival.of_people(
            people.take(pa.array(rows_of)), np.zeros(len(rows_of), np.int64), 1
        )
    # Rows in the order in which they count, so that a person's first rows are the same at every
    # run.
    turns = np.argsort(numbers, kind="stable")
    where = cells.positions(rows_found.column(1))[turns]
    return Arrival.of_people(people.take(pa.array(turns)), where, cells.count)


def _as_spelled(data: Dataset, person: str) -> exp.Expr:
    """The column of people, where two spellings are two people whatever a collation says."""
    # A database that takes two spellings for one person would return now one and now the other,
    # and so give the person two shares.
    person_column = column(person)
    if data.schema.column(person).kind is not Kind.TEXT:
        return person_column
    return as_spelled(person_column, data.engine.dialect)


NOTES, LEASES = "feed-note", "feed-lease"
"""The topics of ledger records about failures, and about the host that works on a feed."""
_LOST = {"answer_lost", "request_reused"}
"""Refusals after which a period can never be answered: it was charged, and its noise is lost."""
_LEASE = timedelta(seconds=60)


class Answering:
    """Plans and answers the periods of all feeds of one vault."""

    def __init__(self, vault: Vault) -> None:
        self._vault, self._streams = vault, StreamFeeds(vault)
        self._own: dict[tuple[str, int], bool] = {}
        """Of answered requests, by their ids and charges, whether they are the feed's own."""

    def placed(self, feed: Feed, begins: date | None, ends: date | None) -> Feed:
        """A feed with its data set and its days filled in from the declarations."""
        facts = self._facts(feed)
        if feed.dataset:
            names: tuple[str, ...] = (feed.dataset,)
        else:  # SQL names its data sets itself
            family = FAMILIES[feed.family]
            names = self._vault.session.prepare(family, feed.asked, facts).datasets
        dataset = next(
            (name for name in names if _dates(facts, name, feed.column) is not None), None
        )
        if dataset is None:
            raise self._no_dates(facts, names, feed.column)
        declared = cast("Bounds", _dates(facts, dataset, feed.column))
        low, high = cast("date", declared.low), cast("date", declared.high)
        last = date.max if feed.is_unending else ends or high
        placed = replace(feed, dataset=dataset, begins=begins or low, ends=last)
        if placed.begins < low or (placed.ends > high and not feed.is_unending):
            raise ParameterError(
                "feed_period_invalid",
                f"{quoted(feed.column)} is declared from {low} to {high}, so that no row lies "
                f"outside. Give {option('begins')} and {option('ends')} within, not "
                f"{placed.begins} to {placed.ends}.",
            )
        _ = placed.periods  # refused where they cannot be cut
        return placed

    def prepared(self, feed: Feed) -> Plan:
        """The plan of each period, by what is declared and permitted now."""
        facts, session = self._facts(feed), self._vault.session
        if feed.family != CONTINUAL:
            asked = FAMILIES[feed.family]
            return session.prepare(asked, feed.asked, facts)
        if not feed.asked.keys() & {"epsilon", "rho"}:
            raise ParameterError(
                "parameter_missing",
                f"A continual feed takes one price for all periods: give {option('epsilon')} or "
                f"{option('rho')}.",
                parameter="epsilon",
            )
        return session.admit("publish", self._streams.prepared(feed, facts), facts)

    def priced(self, feed: Feed, prepared: Plan) -> Feed:
        """A feed with price and method fixed for all periods: where not given, those of today."""
        if isinstance(prepared, StreamPlan):
            if feed.asked["method"] != AUTO:
                return feed
            chosen = {"method": prepared.method.parameters["method"]}
            return replace(feed, asked={**feed.asked, **chosen})
        if feed.asked.keys() & {"epsilon", "rho"}:
            return feed
        pinned = replace(feed, asked={**feed.asked, "epsilon": feed.cost["epsilon"]})
        try:
            self.prepared(pinned)
        except ParameterError as error:
            if error.code != "cost_twice":
                raise
            return feed  # the question itself names its price
        return pinned

    def check_affordable(self, feed: Feed, prepared: Plan, charges: Sequence[Charged]) -> None:
        """Refuse a feed whose periods the budgets could not pay together; nothing is charged."""
        asker = self._asker_of(feed)(prepared.datasets)
        if asker.rights is not None:
            asker.rights.check("publish" if feed.is_continual else FAMILIES[feed.family].shape)
        self._vault.gatekeeper.check_affordable(charges, asker)

    def catch_up(self, feed: Feed) -> int:
        """Answer the periods that are over and not answered, in order; return their number."""
        book = self._vault.ledger.decided()
        note = book.of(NOTES).get(feed.name, {})
        settled = {*self._answered(feed), *note.get("lost", ())}
        waiting = [period for period in feed.due(book.time) if period.name not in settled]
        # The lease last: a host with nothing to do leaves the feed to another.
        if not waiting or not self._holds(feed):
            return 0
        period_count = 0
        for period in waiting:
            try:
                self._answer(feed, period)
            except SfumatoError as error:
                # It may pass, and later periods wait: steps of a stream and items of a feed stay
                # in order.
                if error.code not in _LOST:
                    trouble = {"period": period.name, "code": error.code}
                    self._note(feed, {**note, "trouble": trouble})
                    return period_count
                note = {**note, "lost": [*note.get("lost", ()), period.name]}
                self._note(feed, note)
            period_count += 1
        if note.get("trouble"):
            self._note(feed, {**note, "trouble": None})
        return period_count

    def read(self, feed: Feed, limit: int | None) -> Sequence[FeedItem]:
        """The items of answered periods, in order."""
        answered = self._answered(feed)
        periods = [period for period in feed.periods if period.name in answered]
        periods = periods if limit is None else periods[-limit:]
        if feed.is_continual:
            stream = cast("StreamPlan", self.prepared(feed))
            return self._streams.items(
                stream, periods, cast("Mapping[str, Mapping[str, Any]]", answered)
            )
        return [self._item(period, answered[period.name]) for period in periods]

    def state(self, feed: Feed) -> dict[str, Any]:
        """The progress of a feed, from public facts and the answered periods."""
        book = self._vault.ledger.decided()
        note = book.of(NOTES).get(feed.name, {})
        due = len(feed.due(book.time))
        return {
            "periods": None if feed.is_unending else len(feed.periods),
            "over": due,
            "answered": len(self._answered(feed)),
            "lost": list(note.get("lost", ())),
            "trouble": note.get("trouble"),
        }

    def expected(self, feed: Feed) -> dict[str, float] | None:
        """The standard deviations of a continual feed's first and last step; else None."""
        prepared = self.prepared(feed)
        return prepared.expected() if isinstance(prepared, StreamPlan) else None

    def close(self) -> None:
        """Close the stored states of streams."""
        self._streams.close()

    def _answer(self, feed: Feed, period: Period) -> None:
        prepared, session = self.prepared(feed), self._vault.session
        asker_of = self._asker_of(feed)
        if isinstance(prepared, StreamPlan):
            self._streams.answer(feed, period, prepared, asker_of)
            return
        period_rows, request = PeriodRows(feed, period), feed.request_id(period)
        session.answer(prepared, asker_of, request_id=request, subset=period_rows)

    def _answered(self, feed: Feed) -> Mapping[str, ChargeRequest | Mapping[str, Any]]:
        """By period name, the request that was charged, or the record of a step."""
        if feed.is_continual:
            steps = self._vault.ledger.decided().of(STEPS)
            keys = {period.name: f"{feed.name}/{period.name}" for period in feed.periods}
            return {name: steps[key] for name, key in keys.items() if key in steps}
        ids = {feed.request_id(period): period for period in feed.periods}
        requests = self._vault.ledger.charged(feed.principal, list(ids))
        return {
            ids[key].name: request
            for key, request in requests.items()
            if request.answered is not None and self._gave(PeriodRows(feed, ids[key]), request)
        }

    def _gave(self, period_rows: PeriodRows, request: ChargeRequest) -> bool:
        """Whether what was charged under a period's id is the period's answer."""
        # Remembered, because an answer in the ledger never changes and each look decodes it whole.
        key = request.request_id, request.charge
        if key not in self._own:
            self._own[key] = period_rows.gave(self._stored(request))
        return self._own[key]

    def _stored(self, request: ChargeRequest) -> Release:
        stored = self._vault.ledger.answer(
            principal=request.principal,
            request_id=request.request_id,
            body_digest=request.body_digest,
        )
        assert stored is not None
        return from_bytes(stored)

    def _item(self, period: Period, request: Any) -> FeedItem:
        entry = self._vault.ledger.entry(request.answered)
        assert entry is not None
        made_at = datetime.fromisoformat(json.loads(entry.body)["time"])
        release = self._stored(request)
        table = next(iter(release.tables.values()))
        return FeedItem(period, made_at, table, release.error or {}, release.guarantee.statement)

    def _holds(self, feed: Feed) -> bool:
        """Whether this host may work on a feed; hosts that share a ledger take leases.

        Processes of one host need none: they share its files and wait for each other.
        """
        if not self._vault.config.in_postgres:
            return True
        host = socket.gethostname()

        def take_lease(book: BookState) -> Amendment:
            held = book.of(LEASES).get(feed.name)
            is_good = held is not None and datetime.fromisoformat(held["until"]) > book.time
            if held is not None and is_good and held["host"] != host:
                return Amendment()
            lease = {"host": host, "until": (book.time + _LEASE).isoformat(timespec="seconds")}
            return Amendment(records={(LEASES, feed.name): lease})

        return bool(self._vault.ledger.amend(take_lease, operator=BY).records)

    def _note(self, feed: Feed, note: Mapping[str, Any]) -> None:
        """Record a failure in the ledger, unless that very failure is recorded already."""
        ledger = self._vault.ledger
        if ledger.records(NOTES).get(feed.name) != note:
            ledger.record(NOTES, feed.name, dict(note), operator=BY)

    def _facts(self, feed: Feed) -> Facts:
        return self._vault.session.facts(self._asker_of(feed), feed.dataset)

    def _asker_of(self, feed: Feed) -> AskerOf:
        return partial(self._vault.asker, feed.principal, feed.purpose)

    @staticmethod
    def _no_dates(facts: Facts, names: Sequence[str], column: str) -> ParameterError:
        dates = [
            candidate.name
            for name in names
            if name in facts.catalogue
            for candidate in facts.catalogue[name].schema.columns
            if candidate.kind is Kind.DATE and isinstance(candidate.domain, Bounds)
        ]
        listed = suggestion(column, dates) if dates else "none is declared there."
        return ParameterError(
            "column_unsuitable",
            f"{quoted(column)} is no column of {', '.join(map(quoted, names))} with dates and "
            f"declared bounds, by which rows could belong to periods; {listed}",
        )


def _dates(facts: Facts, dataset: str, column: str) -> Bounds | None:
    """The declared bounds of a column of dates, or None where there are none."""
    held = facts.catalogue.get(dataset)
    declared = () if held is None else held.schema.columns
    match = next(
        (
            candidate
            for candidate in declared
            if candidate.name == column and candidate.kind is Kind.DATE
        ),
        None,
    )
    return match.domain if match is not None and isinstance(match.domain, Bounds) else None
