"""Feeds: standing queries of a vault, answered for every period."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Self

import msgspec
from msgspec import UNSET, Meta, UnsetType

from sfumato.data.schema.names import quoted
from sfumato.errors import ParameterError
from sfumato.operations.fields import (
    Day,
    JsonObject,
    Name,
    Request,
    Words,
    arg,
    fields,
    to_json,
)
from sfumato.operations.operation import (
    OWNERS,
    Call,
    Context,
    Permission,
    Result,
    operation,
    print_table,
)
from sfumato.report.display import Card, CardTable, Shown
from sfumato.vault.principals import OWNER

if TYPE_CHECKING:
    from sfumato.vault.feeds.feed import Feed, FeedItem

PAGE = "/console/owner/feeds"
FORMATS = {
    "atom": "application/atom+xml",
    "json": "application/feed+json",
    "csv": "text/csv",
}
"""Media types by ending; a test compares them with `vault.feeds.feed.FORMATS`, slow to load."""
READERS = Permission("query", without_token=True)
_OPTIONS = ("method", "window", "days", "by", "epsilon", "rho", "delta")
"""Fields that may also be given inside `asked`."""
_COST, _CONTINUAL = "Cost", "Continual feeds"
_OF = arg("The feed.", positional=True)
_READERS = "Principals that may read it; 'public' for all."


class FeedRecord(Result):
    """A feed: its query, its cost, and its progress."""

    feed: str
    family: str
    dataset: str
    column: str
    every: str
    begins: str
    ends: str
    delay: int
    asked: dict[str, Any]
    cost: dict[str, str]
    """The cost of each period; of a continual feed the cost of all periods."""
    purpose: str | None
    stopped: str | None
    unending: bool
    whole_cost: dict[str, str]
    periods: int | None
    """The number of periods; None without an end."""
    over: int
    answered: int
    lost: list[str]
    principal: str | UnsetType = UNSET
    """Shown to owners and to the principal itself."""
    to: list[str] | UnsetType = UNSET
    """Shown to owners, as is `trouble`."""
    trouble: dict[str, Any] | UnsetType | None = UNSET
    expected_sd: dict[str, float] | UnsetType = UNSET
    """Of a new continual feed: the standard deviation of its first step and its last."""

    @property
    def decided(self) -> Feed:
        """The feed as the ledger holds it."""
        from sfumato.vault.feeds.feed import Feed

        return Feed.from_json({"principal": "", "to": (), **self.to_json()})

    @property
    def state(self) -> dict[str, Any]:
        """How many periods are over, answered and lost, and why the feed does not go on."""
        record, names = self.to_json(), ("periods", "over", "answered", "lost", "trouble")
        return {name: record[name] for name in names if name in record}

    @property
    def progress(self) -> str:
        """How far the feed is, in words."""
        text = str(self.answered)
        if self.periods is not None:
            text += f" of {self.periods}"
        if self.lost:
            text += f", {len(self.lost)} lost"
        return f"{text}, not going on: {self.trouble['code']}" if self.trouble else text

    def show(self) -> None:
        """Print the feed in a few lines."""
        from sfumato.report.terminal import printable

        feed = self.decided
        price = "" if feed.is_continual else f", {feed.price_in_words} each"
        lines = [
            f"{feed.name}: {feed.in_words}",
            f"Every {feed.every} {feed.span}, by {feed.column}.",
            f"Of {self.periods or 'its'} periods {self.over} are over, {self.answered} answered.",
            f"Costs {feed.whole_in_words} in all{price}.",
            f"Open to: {', '.join(feed.to) or 'nobody else'}.",
        ]
        if self.expected_sd:
            steps = ", ".join(f"{sd:.4g} in {step}" for step, sd in self.expected_sd.items())
            lines.append(f"By method {feed.asked['method']}, off by about {steps}.")
        if feed.stopped is not None:
            lines.append(f"Stopped on {feed.stopped.date()}.")
        print("\n".join(str(printable(line)) for line in lines))  # noqa: T201


class FeedList(Result):
    """Feeds by name."""

    feeds: tuple[FeedRecord, ...]

    def show(self) -> None:
        """Print a table."""
        rows = []
        for record in self.feeds:
            feed = record.decided
            readers = ", ".join(feed.to)
            rows.append((feed.name, feed.every, record.progress, feed.whole_in_words, readers))
        titles = ("Feed", "Every", "Answered", "Whole cost", "Open to")
        print_table(titles, rows, "There are no feeds.")


class FeedPeriods(Result):
    """The periods that a feed has answered, with the tables of their answers."""

    record: FeedRecord
    items: Any
    """A sequence of `FeedItem`: their tables keep the types of columns, which JSON lacks."""

    def to_json(self) -> dict[str, Any]:
        """The feed's record with `items`."""
        return {**self.record.to_json(), "items": [item.to_json() for item in self.items]}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        """Read what `to_json` wrote."""
        from sfumato.vault.feeds.feed import FeedItem

        data = dict(data)
        items = data.pop("items")
        record = FeedRecord.from_json(data)
        # JSON names a period; its days follow from the declaration of the feed.
        periods = {period.name: period for period in record.decided.periods}
        return cls(record, [FeedItem.from_json(periods[item["period"]], item) for item in items])

    @classmethod
    def json_schema(cls) -> dict[str, Any]:
        """The record's schema with `items`."""
        schema = FeedRecord.json_schema()
        items = {"type": "array", "items": {"type": "object"}}
        schema["properties"] = {**schema["properties"], "items": items}
        return schema

    def file(self, ending: str, address: str = "") -> tuple[str, bytes]:
        """The feed as Atom, JSON Feed or CSV."""
        from sfumato.vault.feeds.feed import written

        return written(self.record.decided, self.items, ending, address)

    def show(self) -> None:
        """Print one table of all periods, and the guarantee."""
        from sfumato.report.terminal import printable

        columns = self.items[-1].table.column_names if self.items else []
        rows = [
            (item.period.name, *(str(printable(str(row.get(name, "")))) for name in columns))
            for item in self.items
            for row in item.table.to_pylist()
        ]
        titles = ("Period", *(str(printable(name)) for name in columns))
        print_table(titles, rows, "No period is answered yet.")
        if self.items:
            print(self.items[-1].guarantee)  # noqa: T201


class FeedRun(Result):
    """The number of periods that were answered, and the feeds that do not go on."""

    answered: int
    troubles: tuple[str, ...] = ()

    def print(self, *, as_json: bool) -> None:
        """Print the number; troubles go to standard error."""
        super().print(as_json=as_json)
        for line in self.troubles:
            print(line, file=sys.stderr)  # noqa: T201

    def command_json(self) -> dict[str, Any]:
        """Only the number: troubles are on standard error, and in `feed list`."""
        return {"answered": self.answered}

    def show(self) -> None:
        """Print one sentence."""
        print(f"Periods answered: {self.answered}.")  # noqa: T201


class AddFeed(Request):
    """Add a feed: a query that the vault answers for every period, on that period's rows.

    The vault checks and shows the whole cost before the first period. A server answers each
    period when it is over; 'feed run' does so without a server. Each period is charged and
    answered once.
    """

    name: Annotated[Name, arg("A letter, then letters, digits, _ and -.", positional=True)]
    column: Annotated[Name, arg("The date column that assigns rows to periods.", metavar="COLUMN")]
    every: Annotated[
        Name,
        arg("day, week, month, quarter, year, or days such as 10d.", metavar="PERIOD"),
    ]
    sql: Annotated[
        str | None, arg("The query: one SELECT statement.", metavar="SQL", positional=True)
    ] = None
    begins: Annotated[Day | None, arg("The first day; by default the first declared.")] = None
    ends: Annotated[Day | None, arg("The last day, or never; by default the last declared.")] = None
    delay: Annotated[int, arg("Wait this many days longer for late rows.", metavar="DAYS")] = 0
    family: Annotated[
        Name | None, arg("publish, synthesize or above, instead of SQL.", metavar="FAMILY")
    ] = None
    dataset: Annotated[Name | None, arg("The data set, where there is no SQL.")] = None
    asked: Annotated[
        JsonObject | None, arg("Options of the family, as one JSON object.", flag="ask")
    ] = None
    purpose: Annotated[Name | None, arg("The purpose of the question.", metavar="PURPOSE")] = None
    to: Annotated[Words | None, arg(_READERS)] = None
    plan: Annotated[bool, arg("Only show what the feed would cost; add nothing.")] = False
    continual: Annotated[
        bool, arg("Answer from all rows since the beginning, for one price.", topic=_CONTINUAL)
    ] = False
    method: Annotated[
        Name | None, arg("auto, tree, honaker, root, ...", metavar="METHOD", topic=_CONTINUAL)
    ] = None
    window: Annotated[
        int | None, arg("Only the last periods.", metavar="PERIODS", topic=_CONTINUAL)
    ] = None
    days: Annotated[
        int | None, arg("Periods of one person that count.", metavar="PERIODS", topic=_CONTINUAL)
    ] = None
    by: Annotated[
        Name | None,
        arg("One figure for each value of this column.", metavar="COLUMN", topic=_CONTINUAL),
    ] = None
    epsilon: Annotated[
        Fraction | None, arg("The price of each period.", metavar="EPSILON", topic=_COST)
    ] = None
    rho: Annotated[
        Fraction | None,
        arg(
            "The rho to spend (zero-concentrated privacy) instead of epsilon.",
            metavar="RHO",
            topic=_COST,
        ),
    ] = None
    delta: Annotated[
        Fraction | None,
        arg(
            "The delta to spend; allows Gaussian noise where that is more accurate.",
            metavar="DELTA",
            topic=_COST,
        ),
    ] = None
    principal: Annotated[
        Name | None,
        arg("The principal whose budget is charged; by default the owner.", topic=_COST),
    ] = None


class ListFeeds(Request):
    """List the feeds that you may read, how far each is, and its whole cost."""


class ReadFeed(Request):
    """Read the answered periods of a feed, or write them to a file."""

    name: Annotated[Name, _OF]
    limit: Annotated[
        Annotated[int, Meta(ge=1)] | None, arg("Only this many periods, the newest.")
    ] = None


class RunFeeds(Request):
    """Answer every period that is over and not answered yet."""


class OpenFeed(Request):
    """Set the readers of a feed; all others lose access."""

    name: Annotated[Name, _OF]
    to: Annotated[Words, arg(_READERS)]


class StopFeed(Request):
    """Stop a feed: no period that ends from now on is answered."""

    name: Annotated[Name, _OF]


@operation(
    "feed add",
    allowed=OWNERS,
    examples=[
        {
            "name": "visits-by-month",
            "sql": "SELECT COUNT(*) AS n FROM people",
            "column": "day",
            "every": "month",
            "epsilon": "0.1",
        }
    ],
    path="/admin/feeds",
    refusals=(402,),
    repeatable=False,
    recorded=True,
    whole_vault=True,
)
def add_feed(context: Context, request: AddFeed) -> FeedRecord:
    """Write the feed into the ledger, or only plan it."""
    from sfumato.vault.feeds.feed import CONTINUAL

    # JSON form, because the ledger stores what is asked, and every period reads it from there.
    values = to_json(request)
    options = values.pop("asked", {})
    # One operation plans and adds, so that a plan is checked exactly as the feed will be.
    is_plan = values.pop("plan", False)
    if values.pop("continual", False):
        values["family"] = CONTINUAL
    # A field inside the object would replace the one outside, such as the principal who pays.
    own_names = {field.name for field in fields(AddFeed)} - set(_OPTIONS)
    if clash := options.keys() & (own_names | values.keys() | {"operator"}):
        name = min(clash)
        raise ParameterError(
            "request_malformed",
            'The JSON object must hold only options of the family, such as {"kind": "histogram"}. '
            f"Give {quoted(name)} outside it.",
            parameter="asked",
        )
    registry = context.vault.feed_registry
    if is_plan:
        feed = registry.plan(**values, **options)
    else:
        feed = registry.add(**values, **options, operator=context.operator)
    record = _record(context, feed)
    # None unless the feed is continual.
    expected = registry.expected(feed)
    return record if expected is None else msgspec.structs.replace(record, expected_sd=expected)


@operation(
    "feed list",
    allowed=READERS,
    examples=[{}],
    method="GET",
    path="/feeds",
    whole_vault=True,
    page=PAGE,
)
def list_feeds(context: Context, request: ListFeeds) -> FeedList:  # noqa: ARG001
    """Read the feeds from the ledger; the owner may read all."""
    feeds = context.vault.feed_registry.list(principal=context.principal)
    return FeedList(feeds=tuple(_record(context, feed) for feed in feeds))


@operation(
    "feed read",
    allowed=READERS,
    examples=[{"name": "visits-by-month"}],
    method="GET",
    path="/feeds/{name}",
    formats=FORMATS,
    whole_vault=True,
    page=PAGE,
)
def read_feed(context: Context, request: ReadFeed) -> FeedPeriods:
    """Read the answers of all periods, or of the newest."""
    registry = context.vault.feed_registry
    feed = registry.get(request.name, principal=context.principal)
    items = registry.read(request.name, principal=context.principal, limit=request.limit)
    return FeedPeriods(_record(context, feed), items)


@operation("feed run", allowed=OWNERS, examples=[{}], doors=("command",), whole_vault=True)
def run_feeds(context: Context, request: RunFeeds) -> FeedRun:  # noqa: ARG001
    """Answer due periods now; a server does so by itself."""
    from sfumato.vault.feeds.step_store import lost_state

    registry = context.vault.feed_registry
    answered, lost, troubles = registry.work(), lost_state(), []
    for feed in registry.list():
        if trouble := registry.state(feed)["trouble"]:
            # The stored trouble has a code alone; for a lost state the sentence says what to do.
            code = trouble["code"]
            reason = f"{code}: {lost.message}" if code == lost.code else f"{code}."
            troubles.append(f"{feed.name} does not go on at {trouble['period']}: {reason}")
    return FeedRun(answered, tuple(troubles))


@operation(
    "feed open",
    allowed=OWNERS,
    examples=[{"name": "visits-by-month", "to": ["public"]}],
    path="/admin/feeds/{name}/open",
    recorded=True,
    whole_vault=True,
    page=PAGE,
)
def open_feed(context: Context, request: OpenFeed) -> FeedRecord:
    """Replace the readers in the ledger."""
    registry = context.vault.feed_registry
    feed = registry.open_to(request.name, request.to, operator=context.operator)
    return _record(context, feed)


@operation(
    "feed stop",
    allowed=OWNERS,
    examples=[{"name": "visits-by-month"}],
    path="/admin/feeds/{name}/stop",
    recorded=True,
    whole_vault=True,
    page=PAGE,
)
def stop_feed(context: Context, request: StopFeed) -> FeedRecord:
    """Write the time of the stop into the ledger; answered periods stay readable."""
    registry = context.vault.feed_registry
    return _record(context, registry.stop(request.name, operator=context.operator))


def _record(context: Context, feed: Feed) -> FeedRecord:
    described = context.vault.feed_registry.described(feed, principal=context.principal)
    return FeedRecord.from_json(described)


class Feeds(Shown):
    """The feeds of a vault, local or behind a server.

    Behind a server a principal sees its own feeds and those that are open to it; only owners may
    add, open and stop feeds.
    """

    def __init__(self, call: Call) -> None:
        self._call = call

    def plan(
        self, name: str, sql: str | None = None, *, column: str, every: str, **options: Any
    ) -> Feed:
        """Plan a feed: what `add` with the same arguments would add and cost; free of charge."""
        return self._added(name, sql, column, every, OWNER, {**options, "plan": True})

    def add(
        self,
        name: str,
        sql: str | None = None,
        *,
        column: str,
        every: str,
        operator: str = OWNER,
        **options: Any,
    ) -> Feed:
        """Add a query that is answered for every period, on the rows of that period.

        Periods that are over already are answered first.

        Parameters
        ----------
        name
            A letter, then letters, digits, _ and -.
        sql
            One SELECT. Without it, give a `family` and a `dataset`.
        column
            The column of dates that assigns rows to periods.
        every
            'day', 'week', 'month', 'quarter', 'year', or days such as '10d'.
        operator
            Who decided it; the ledger records the name.
        **options
            `family`: 'publish', 'synthesize', 'above' (with the options of that family), or
            'continual': answers from all rows since the beginning, for one cost. `dataset`;
            `begins` and `ends`, by default the declared bounds of the column, `ends="never"` for
            a continual feed without end; `delay` in days; `epsilon` or `rho`, and `delta`: the
            cost of each period; `principal`, whose budget pays; `purpose`; `to`, principals that
            may read it, or 'public'. Of a continual feed: `method`, `window` and `days` in
            periods, and the column `by`.

        Returns
        -------
        Feed
            The feed, whose periods are answered one after another.

        Raises
        ------
        ParameterError
            An option is wrong, or the name is taken.
        BudgetError
            The budget cannot pay for all periods now.
        """
        return self._added(name, sql, column, every, operator, options)

    def list(self) -> Sequence[Feed]:
        """List the feeds that you may read, by name."""
        listed: FeedList = self._call(ListFeeds)
        return [record.decided for record in listed.feeds]

    def get(self, name: str) -> Feed:
        """Read a feed by name."""
        newest: FeedPeriods = self._call(ReadFeed, name=name, limit=1)
        return newest.record.decided

    def state(self, name: str) -> dict[str, Any]:
        """Count the periods of a feed that are over, answered and lost."""
        newest: FeedPeriods = self._call(ReadFeed, name=name, limit=1)
        return newest.record.state

    def read(self, name: str, *, limit: int | None = None) -> Sequence[FeedItem]:
        """Read the answered periods of a feed in order, or the newest `limit` of them."""
        periods: FeedPeriods = self._call(ReadFeed, name=name, limit=limit)
        return list(periods.items)

    def open_to(self, name: str, to: Sequence[str] | str, *, operator: str = OWNER) -> Feed:
        """Set the readers of a feed: principals by name, or 'public'; all others lose access."""
        record: FeedRecord = self._call(OpenFeed, operator, name=name, to=to)
        return record.decided

    def stop(self, name: str, *, operator: str = OWNER) -> Feed:
        """Stop a feed: no period that ends from now on is answered."""
        record: FeedRecord = self._call(StopFeed, operator, name=name)
        return record.decided

    def work(self) -> int:
        """Answer every period that is over and not answered yet, and count them.

        A server does this by itself; only a local vault has this method.
        """
        run: FeedRun = self._call(RunFeeds)
        return run.answered

    def _added(
        self,
        name: str,
        sql: str | None,
        column: str,
        every: str,
        operator: str,
        options: dict[str, Any],
    ) -> Feed:
        values = {
            field.name: options.pop(field.name)
            for field in fields(AddFeed)
            if field.name in options
        }
        # In Python `family="continual"`; the request has a flag for it, because it is no family.
        if values.get("family") == "continual":
            del values["family"]
            values["continual"] = True
        record: FeedRecord = self._call(
            AddFeed, operator,
            name=name, sql=sql, column=column, every=every, asked=options or None, **values,
        )  # fmt: skip
        return record.decided

    def _card(self) -> Card:
        feeds = self.list()
        rows = [
            (feed.name, feed.in_words, feed.every, feed.whole_in_words, ", ".join(feed.to))
            for feed in feeds[:10]
        ]
        titles = ("Feed", "Asks", "Every", "Whole cost", "Open to")
        table = CardTable(titles, rows, len(feeds[10:]))
        return Card(f"{len(feeds)} to read", {}, table if rows else None)
