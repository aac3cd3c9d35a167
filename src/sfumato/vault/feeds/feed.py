"""A feed: what is asked, of which periods, at which price, and what has become of each period."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

from sfumato.methods.stream.top_cells import USUAL_TOP
from sfumato.privacy.accounting.price import amounts_in_words
from sfumato.report.display import Card, CardTable, Shown
from sfumato.vault.feeds.periods import Period, periods

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa

NEVER = "never"
"""In the place of the last day: a continual feed that has none."""
CONTINUAL = "continual"
"""The family of a feed whose periods all tell the rows from its beginning on."""


@dataclass(frozen=True, repr=False, kw_only=True)
class Feed(Shown):
    """A standing question as it was decided. Nothing of it depends on a row."""

    name: str
    family: str
    dataset: str
    column: str
    every: str
    begins: date
    ends: date
    delay: int = 0
    """For how many days after a period's end late rows are waited for."""
    asked: Mapping[str, Any] = field(default_factory=dict)
    cost: Mapping[str, str]
    """What each period costs, or of a continual one the whole."""
    principal: str
    purpose: str | None = None
    to: tuple[str, ...] = ()
    """To whom it is open, besides whom it is made for."""
    stopped: datetime | None = None
    is_unending: bool = False
    """Whether it was decided without a last day."""

    @cached_property
    def periods(self) -> tuple[Period, ...]:
        """All that it will ever tell of, in order."""
        return periods(self.every, self.begins, self.ends, cut=self.is_unending)

    @property
    def span(self) -> str:
        """From when to when it tells, in words."""
        if self.is_unending:
            return f"from {self.begins} on, without end"
        return f"from {self.begins} to {self.ends}"

    @property
    def is_continual(self) -> bool:
        """Whether each period tells all rows from the beginning on, for one price."""
        return self.family == CONTINUAL

    @property
    def whole_cost(self) -> dict[str, str]:
        """What all periods cost together, at most: its whole budget, known ahead."""
        times = 1 if self.is_continual else len(self.periods)
        return {name: str(times * Fraction(one)) for name, one in self.cost.items()}

    @property
    def price_in_words(self) -> str:
        """What each period costs, or of a continual one the whole."""
        return amounts_in_words(self.cost)

    @property
    def whole_in_words(self) -> str:
        """What all periods cost together."""
        return amounts_in_words(self.whole_cost)

    def request_id(self, period: Period | None = None) -> str:
        """Under which a period is charged and answered, once."""
        return f"feed/{self.name}" + ("" if period is None else f"/{period.name}")

    def due(self, now: datetime) -> tuple[Period, ...]:
        """The periods that were over at a moment, and before it was stopped."""
        end = now if self.stopped is None else min(now, self.stopped)
        latest = end.date() - timedelta(days=self.delay)
        return tuple(one for one in self.periods if one.high < latest)

    def to_json(self) -> dict[str, Any]:
        """The feed as JSON-able data."""
        return {
            "feed": self.name,
            "family": self.family,
            "dataset": self.dataset,
            "column": self.column,
            "every": self.every,
            "begins": self.begins.isoformat(),
            "ends": self.ends.isoformat(),
            "delay": self.delay,
            "asked": dict(self.asked),
            "cost": dict(self.cost),
            "principal": self.principal,
            "purpose": self.purpose,
            "to": list(self.to),
            "stopped": None if self.stopped is None else self.stopped.isoformat(),
            "unending": self.is_unending,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> Self:
        """Read what `to_json` wrote."""
        stopped = told["stopped"]
        return cls(
            name=told["feed"],
            family=told["family"],
            dataset=told["dataset"],
            column=told["column"],
            every=told["every"],
            begins=date.fromisoformat(told["begins"]),
            ends=date.fromisoformat(told["ends"]),
            delay=told["delay"],
            asked=told["asked"],
            cost=told["cost"],
            principal=told["principal"],
            purpose=told["purpose"],
            to=tuple(told["to"]),
            stopped=None if stopped is None else datetime.fromisoformat(stopped),
            is_unending=told.get("unending", False),
        )

    @property
    def in_words(self) -> str:
        """What it asks, in one line."""
        if self.is_continual:
            return self._counted_in_words
        if "asked" in self.asked:
            return str(self.asked["asked"])
        words = [str(self.asked[one]) for one in ("kind", "method") if one in self.asked]
        columns = self.asked.get("columns") or ()
        listed = columns if isinstance(columns, str) else ", ".join(columns)
        return " ".join([self.family, *words, "of", listed or "all columns", "in", self.dataset])

    @property
    def _counted_in_words(self) -> str:
        what, window = self.asked, self.asked.get("window")
        each = f" for each {what['by']}" if "by" in what else ""
        if what.get("method") == "top":
            each = f", of the {what.get('top', USUAL_TOP)} largest {what.get('by')} alone"
            each += f", of at most {what['changes']} changes" if "changes" in what else ""
        if window is None:
            return f"rows of {self.dataset} up to the end of each {self.every}{each}"
        if what.get("method") == "w-event":  # whose window is what is hidden, not what is told
            return (
                f"rows of {self.dataset} in each {self.every}{each}, any {window} hidden together"
            )
        return f"rows of {self.dataset} in the last {window} of each {self.every}{each}"

    def _card(self) -> Card:
        whole = self.whole_in_words
        facts = {
            "Asks": self.in_words,
            "Every": f"{self.every}, {self.span}, by {self.column}",
            "Costs": f"{whole} in all"
            + ("" if self.is_unending else f", {len(self.periods)} periods"),
            "Open to": ", ".join(self.to) or "nobody else",
        }
        facts |= {} if self.stopped is None else {"Stopped": str(self.stopped.date())}
        return Card(f"{self.name}, every {self.every} of {self.dataset}, {whole} in all", facts)


@dataclass(frozen=True, repr=False)
class FeedItem(Shown):
    """What a feed told of one period."""

    period: Period
    made: datetime
    table: pa.Table
    error: Mapping[str, Any]
    guarantee: str

    def to_json(self) -> dict[str, Any]:
        """The item as JSON-able data."""
        rows = [[_plain(one) for one in row.values()] for row in self.table.to_pylist()]
        return {
            **self.period.to_json(),
            "made": self.made.date().isoformat(),
            "columns": self.table.column_names,
            "rows": rows,
            "error": self.error,
            "guarantee": self.guarantee,
        }

    def _card(self) -> Card:
        rows = [tuple(map(str, one.values())) for one in self.table.slice(0, 10).to_pylist()]
        more = max(0, self.table.num_rows - 10)
        table = CardTable(tuple(self.table.column_names), rows, more)
        return Card(self.period.name, {"Guarantee": self.guarantee}, table)


def _plain(value: object) -> object:
    if isinstance(value, float) and value != value:
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
