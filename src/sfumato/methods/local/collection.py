"""The collector's side of a round: reports come in, an estimate goes out, no answer ever seen.

Every door (page, program, batch file) passes `receive`. An item that is no report of this round is
rejected by itself, with its place and one word for the reason; what it said is neither quoted nor
kept. How many were rejected and why is public, as the estimate is.
"""

from __future__ import annotations

import math
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache, cached_property
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sfumato.errors import ParameterError, SfumatoError
from sfumato.filesystem import write_text
from sfumato.methods.local import oracle
from sfumato.methods.local.batches import read_batch
from sfumato.methods.local.report_store import Item, ReportStore
from sfumato.methods.local.reports import from_wire
from sfumato.methods.local.rounds import key_file, load_key, load_round, stamp, store_file
from sfumato.methods.local.tickets import NONCE_BYTES, TicketOffice, digest_of, is_drawn, read
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, CardTable, Shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from sfumato.methods.local.mechanism import Oracle
    from sfumato.methods.local.report_store import StoredReports
    from sfumato.methods.local.reports import ReportSketch
    from sfumato.methods.local.rounds import Round


DEVICE, HAND = "device", "hand"
"""The ways in which a report can be made: by a program, or with coins and dice."""

REASONS = {
    "malformed": "no report at all, or none of this mechanism",
    "outside_domain": "a report of another number of choices",
    "way_unknown": "made in a way that this round does not have",
    "ticket_unknown": "without a ticket of this round",
    "replayed": "with a ticket that was used before",
    "not_open": "before the round opened",
    "closed": "after the round closed",
    "other_round": "made for another round",
    "too_many": "too many at once",
}
"""Why items are rejected, in one word and in several."""


@dataclass(frozen=True)
class Delivery:
    """What became of items that came together: how many were kept, and which were not, and why."""

    accepted: int
    rejected: Sequence[tuple[int, str]] = field(default=())

    @property
    def reasons(self) -> Mapping[str, int]:
        """How many were rejected, by reason."""
        return Counter(reason for _, reason in self.rejected)

    def to_json(self) -> dict[str, Any]:
        """For programs: the place of each rejected item and the reason."""
        return {
            "accepted": self.accepted,
            "rejected": [{"index": index, "code": reason} for index, reason in self.rejected],
        }


def ways_of(asked: Round) -> dict[str, Oracle]:
    """The mechanisms by which a round takes reports, by the way they are made."""
    facts = {
        DEVICE: oracle(asked.mechanism, domain=list(asked.choices), epsilon=asked.epsilon),
    }
    if asked.by_hand_epsilon is not None:
        facts[HAND] = oracle("k-ary", domain=list(asked.choices), epsilon=asked.by_hand_epsilon)
    return facts


class Collection:
    """A round with its store; `now` is asked for the time."""

    def __init__(
        self, path: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.path, self._now = path, now
        self.round = load_round(path)
        self._office = TicketOffice(load_key(key_file(path), self.round), self.round.id)
        self.store = ReportStore(store_file(path), self.round.id)
        self._read: dict[tuple[str, type, int | str], bytes] = {}
        """The rows of reports that came before: most rounds have few different ones."""

    @cached_property
    def ways(self) -> dict[str, Oracle]:
        """The mechanisms by the way that a report is made."""
        return ways_of(self.round)

    def tickets(self, count: int = 1) -> list[str]:
        """Fresh tickets for reports that come over the network."""
        random_bytes = SystemEntropy().words(2 * count).tobytes()
        nonces = (
            random_bytes[at : at + NONCE_BYTES] for at in range(0, len(random_bytes), NONCE_BYTES)
        )
        return [self._office.issue(nonce) for nonce in nonces]

    @property
    def state(self) -> str:
        """Whether it is 'open', 'not_open' yet, or 'closed'."""
        if self.store.read().closed is not None or self._now() >= self.round.closes:
            return "closed"
        return "open" if self._now() >= self.round.opens else "not_open"

    def receive(self, items: Sequence[object]) -> Delivery:
        """Take reports that came over the network, each with a ticket that was handed out here."""
        state = self.state
        if state != "open":
            return self._turned_away(len(items), state)
        return self._store_valid(items, self._office.is_ours)

    def collect(self, items: Iterable[object]) -> Delivery:
        """Take reports of a batch file, whose devices drew their tickets themselves.

        What was gathered while the round was open may be brought later, until it is closed.
        """
        if self._now() < self.round.opens:
            return self._turned_away(sum(1 for _ in items), "not_open")
        return self._store_valid(
            items, lambda ticket: is_drawn(ticket) or self._office.is_ours(ticket)
        )

    def collect_file(self, path: Path) -> Delivery:
        """Take the reports of a batch file, all at once."""
        return self.collect(read_batch(path, self.round.id))

    def reject(self, reason: str, count: int = 1) -> Delivery:
        """Count items that could not even be read."""
        return self._turned_away(count, reason)

    def _turned_away(self, count: int, reason: str) -> Delivery:
        if self.store.read().closed is None:
            self.store.add([], {reason: count} if count else {})
        return Delivery(0, [(index, reason) for index in range(count)])

    def _store_valid(self, items: Iterable[object], known: Callable[[bytes], bool]) -> Delivery:
        rejected: list[tuple[int, str]] = []
        reasons: Counter[str] = Counter()
        came = 0

        def fitting() -> Iterator[tuple[int, Item]]:
            nonlocal came
            for came, item in enumerate(items, start=1):
                checked = self._checked(item, known)
                if isinstance(checked, Item):
                    yield came - 1, checked
                else:
                    rejected.append((came - 1, checked))
                    reasons[checked] += 1

        again = self.store.add(fitting(), reasons)
        rejected += [(index, "replayed") for index in again]
        return Delivery(came - len(rejected), sorted(rejected))

    def _checked(self, item: object, known: Callable[[bytes], bool]) -> Item | str:
        """An item that may be kept, or why not."""
        if not isinstance(item, dict) or not {"ticket", "report"} <= set(item) <= _FIELDS:
            return "malformed"
        way = item.get("way", DEVICE)
        mechanism = self.ways.get(way) if isinstance(way, str) else None
        if mechanism is None:
            return "way_unknown"
        report = item["report"]
        kind = (way, type(report), report) if isinstance(report, int | str) else None
        row = self._read.get(kind) if kind else None
        if row is None:
            facts = from_wire(mechanism.layout, report)
            if isinstance(facts, str):
                return facts
            row = facts.tobytes()
            if kind and len(self._read) < _MOST_READ:
                self._read[kind] = row
        ticket = read(item["ticket"])
        if ticket is None or not known(ticket):
            return "ticket_unknown"
        return Item(way, row, digest_of(ticket))

    def estimate(self) -> SurveyEstimate:
        """What the answers are, as far as randomized reports tell: exact, for the collector."""
        return self._estimated(self.store.read())

    def published(self) -> SurveyEstimate:
        """The same for everybody: renewed by groups of reports, and when the round is closed."""
        return self._estimated(self.store.published())

    def _estimated(self, stored: StoredReports) -> SurveyEstimate:
        estimates = []
        for way, mechanism in self.ways.items():
            rows = {row: people for (of, row), people in stored.reports.items() if of == way}
            if rows:
                pieces = _spread(rows, mechanism.layout.dtype)
                estimates.append((mechanism, mechanism.merge(map(mechanism.sum_rows, pieces))))
        return SurveyEstimate.of(self.round, estimates, stored.rejected, stored.closed)

    def close_round(self) -> SurveyEstimate:
        """Take no report from now on, for good, and estimate."""
        if self._now() < self.round.opens:
            raise ParameterError(
                "round_not_open",
                f"The round has not opened yet: it opens {stamp(self.round.opens)}. "
                "Close it after that.",
            )
        self.store.close_round(stamp(self._now()))
        return self.estimate()

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()


def _spread(rows: Mapping[bytes, int], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Each row as often as it came, in pieces that fit memory however many there are."""
    stacked = np.frombuffer(b"".join(rows), dtype=dtype)
    times = np.array(list(rows.values()), dtype=np.int64)
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]), _PIECE):
        indices = np.arange(start, min(start + _PIECE, int(ends[-1])))
        yield stacked[np.searchsorted(ends, indices, side="right")]


_PIECE = 1 << 20
_MOST_READ = 10_000
_FIELDS = {"ticket", "report", "way"}


# What a survey found: the share of each choice with its error, and what was rejected.

_WITHIN_95 = 1.959963984540054


@dataclass(frozen=True, repr=False)
class SurveyEstimate(Shown):
    """Estimated shares of the choices among the people who answered.

    A share is unbiased, so a rare choice may come out below 0. `sd` is that of the randomness of
    reports alone: how well those who answered stand for others is not in it.
    """

    round: Round
    n: int
    rejected: Mapping[str, int]
    closed: str | None
    table: pa.Table
    """Columns value, share, sd and bound95; without reports the last three are null."""

    @classmethod
    def of(
        cls,
        asked: Round,
        sketches: Sequence[tuple[Oracle, ReportSketch]],
        rejected: Mapping[str, int],
        closed: str | None,
    ) -> SurveyEstimate:
        """Add up the numbers of people that each way of reporting estimates without bias."""
        n = sum(sketch.n for _, sketch in sketches)
        people, variance = np.zeros(len(asked.choices)), np.zeros(len(asked.choices))
        for mechanism, sketch in sketches:
            estimate = mechanism.estimate(sketch)
            people += sketch.n * estimate["share"].to_numpy()
            variance += (sketch.n * estimate["sd"].to_numpy()) ** 2
        columns: dict[str, Any] = {"value": list(asked.choices)}
        if n:
            sd = np.sqrt(variance) / n
            columns |= {"share": people / n, "sd": sd, "bound95": _WITHIN_95 * sd}
        else:
            missing = pa.nulls(len(asked.choices), pa.float64())
            columns |= dict.fromkeys(("share", "sd", "bound95"), missing)
        return cls(asked, n, dict(rejected), closed, pa.table(columns))

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        rows = self.table.to_pylist()
        return {
            "round": self.round.id,
            "question": self.round.question,
            "n": self.n,
            "rejected": sum(self.rejected.values()),
            "rejected_by_reason": dict(sorted(self.rejected.items())),
            "mechanism": self.round.mechanism,
            "epsilon": float(self.round.epsilon),
            "closed": self.closed,
            "estimate": {
                row["value"]: {name: row[name] for name in ("share", "sd", "bound95")}
                for row in rows
            },
        }

    def bars(self) -> list[tuple[str, float, float, float]]:
        """Each choice with its share and where the truth is in 95 % of cases."""
        return [
            (
                row["value"],
                row["share"],
                row["share"] - row["bound95"],
                row["share"] + row["bound95"],
            )
            for row in self.table.to_pylist()
            if row["share"] is not None and math.isfinite(row["share"])
        ]

    def save_report(self, path: Path, *, overwrite: bool = False) -> None:
        """Write it as a page with its picture, that needs nothing but itself."""
        from sfumato.methods.local.survey_page import ShownResult, result_report

        shown = ShownResult(self.bars(), self.n, self.rejected, self.closed)
        page = result_report(self.round.question, str(self.round.epsilon), shown)
        write_text(path, page, overwrite=overwrite)

    def _card(self) -> Card:
        turned = sum(self.rejected.values())
        rows = [
            [row["value"], row["share"], row["bound95"]]
            for row in self.table.slice(0, 10).to_pylist()
        ]
        return Card(
            line=f"{self.n:,} answers to {self.round.question!r}, {turned:,} rejected",
            facts={
                "mechanism": self.round.mechanism,
                "epsilon": str(self.round.epsilon),
                "closed": self.closed or "no",
            },
            table=CardTable(
                ("choice", "share", "95 % interval"),
                rows,
                hidden_rows=max(0, self.table.num_rows - 10),
            ),
        )


# The rounds that lie in a folder, found by their ids.

SURVEYS = "surveys"
"""The folder of a vault in which its rounds lie."""


class RoundFolder:
    """Opens each round of a folder once; files that came later are found when asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, Lock()
        self._seen: set[tuple[str, int, bool]] = set()
        self._open: dict[str, Collection] = {}

    def __call__(self, round_id: str) -> Collection | None:
        """The round of an id, if there is one."""
        with self._lock:
            if round_id not in self._open:
                self._look()
            return self._open.get(round_id)

    def _look(self) -> None:
        for path in sorted(self._folder.glob("*.toml")):
            file = (path.name, path.stat().st_mtime_ns, key_file(path).exists())
            if file in self._seen:
                continue
            self._seen.add(file)
            with suppress(SfumatoError):  # no round, or one without its key: none that answers here
                collection = Collection(path)
                self._open.setdefault(collection.round.id, collection)


@cache
def rounds_of(vault_folder: Path) -> RoundFolder:
    """The rounds of a vault."""
    return RoundFolder(vault_folder / SURVEYS)
