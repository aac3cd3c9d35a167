"""The collector's side of a survey round: it receives reports and estimates shares.

Reports arrive by page, program (`receive`) or batch file (`collect`). An invalid item is rejected
alone, with its index and a reason; its content is neither quoted nor stored. The counts of rejected
items by reason are public, as the estimate is.
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
from sfumato.methods.local.tickets import (
    NONCE_BYTES,
    TicketOffice,
    decode_ticket,
    digest_of,
    is_drawn,
)
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
"""How a report can be made: by a program, or with coins and dice."""

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
"""The reasons for rejecting an item: its code and its text."""


@dataclass(frozen=True)
class Delivery:
    """The result of a delivery: the number of accepted items, and the rejected ones."""

    accepted: int
    rejected: Sequence[tuple[int, str]] = field(default=())
    """The index of each rejected item, and a key of `REASONS`."""

    @property
    def reasons(self) -> Mapping[str, int]:
        """The number of rejected items by reason."""
        return Counter(reason for _, reason in self.rejected)

    def to_json(self) -> dict[str, Any]:
        """The accepted number, and the index and code of each rejected item."""
        return {
            "accepted": self.accepted,
            "rejected": [{"index": index, "code": reason} for index, reason in self.rejected],
        }


def ways_of(asked: Round) -> dict[str, Oracle]:
    """The mechanisms of a round, by the way in which a report is made."""
    mechanisms = {
        DEVICE: oracle(asked.mechanism, domain=list(asked.choices), epsilon=asked.epsilon),
    }
    if asked.by_hand_epsilon is not None:
        mechanisms[HAND] = oracle(
            "k-ary", domain=list(asked.choices), epsilon=asked.by_hand_epsilon
        )
    return mechanisms


class Collection:
    """A round with its store of reports; `now` is the clock."""

    def __init__(
        self, path: Path, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)
    ) -> None:
        self.path, self._now = path, now
        self.round = load_round(path)
        self._office = TicketOffice(load_key(key_file(path), self.round), self.round.id)
        self.store = ReportStore(store_file(path), self.round.id)
        self._read: dict[tuple[str, type, int | str], bytes] = {}
        """A cache of decoded reports: most rounds have few different ones."""

    @cached_property
    def mechanisms(self) -> dict[str, Oracle]:
        """The mechanisms of the round, by the way in which a report is made."""
        return ways_of(self.round)

    def tickets(self, count: int = 1) -> list[str]:
        """Issue fresh tickets for reports that come over the network."""
        random_bytes = SystemEntropy().words(2 * count).tobytes()
        nonces = (
            random_bytes[at : at + NONCE_BYTES] for at in range(0, len(random_bytes), NONCE_BYTES)
        )
        return [self._office.issue(nonce) for nonce in nonces]

    @property
    def state(self) -> str:
        """'open', 'not_open' (yet) or 'closed'."""
        if self.store.read().closed is not None or self._now() >= self.round.closes:
            return "closed"
        return "open" if self._now() >= self.round.opens else "not_open"

    def receive(self, items: Sequence[object]) -> Delivery:
        """Store reports that came over the network, each with a ticket issued here.

        Parameters
        ----------
        items : sequence
            Decoded JSON: objects with `ticket`, `report` and maybe `way`. Anything else is
            rejected.

        Returns
        -------
        Delivery
            The accepted number and the rejected items. All accepted items are on the disk.

        Raises
        ------
        InternalError
            If the store fails; nothing of this delivery is stored then.
        """
        state = self.state
        if state != "open":
            return self.reject(state, len(items))
        return self._store_valid(items, self._office.is_ours)

    def collect(self, items: Iterable[object]) -> Delivery:
        """Store reports of a batch file, whose devices drew their own tickets.

        A batch may arrive after the round's end, until the collector closes the round.
        """
        if self._now() < self.round.opens:
            return self.reject("not_open", sum(1 for _ in items))
        return self._store_valid(
            items, lambda ticket: is_drawn(ticket) or self._office.is_ours(ticket)
        )

    def collect_file(self, path: Path) -> Delivery:
        """Store the reports of a batch file, all or nothing."""
        return self.collect(read_batch(path, self.round.id))

    def reject(self, reason: str, count: int = 1) -> Delivery:
        """Reject and count items without reading them."""
        if self.store.read().closed is None:
            self.store.add([], {reason: count} if count else {})
        return Delivery(0, [(index, reason) for index in range(count)])

    def _store_valid(self, items: Iterable[object], known: Callable[[bytes], bool]) -> Delivery:
        rejected: list[tuple[int, str]] = []
        reasons: Counter[str] = Counter()
        count = 0

        # Items stream into the store one by one; `reasons` is complete when the last was read.
        def valid_items() -> Iterator[tuple[int, Item]]:
            nonlocal count
            for count, item in enumerate(items, start=1):
                checked = self._check_item(item, known)
                if isinstance(checked, Item):
                    yield count - 1, checked
                else:
                    rejected.append((count - 1, checked))
                    reasons[checked] += 1

        replayed = self.store.add(valid_items(), reasons)
        rejected += [(index, "replayed") for index in replayed]
        return Delivery(count - len(rejected), sorted(rejected))

    def _check_item(self, item: object, known: Callable[[bytes], bool]) -> Item | str:
        """Check an item: the item to store, or the reason to reject it."""
        if not isinstance(item, dict) or not {"ticket", "report"} <= set(item) <= _FIELDS:
            return "malformed"
        way = item.get("way", DEVICE)
        mechanism = self.mechanisms.get(way) if isinstance(way, str) else None
        if mechanism is None:
            return "way_unknown"
        report = item["report"]
        kind = (way, type(report), report) if isinstance(report, int | str) else None
        row = self._read.get(kind) if kind else None
        if row is None:
            decoded = from_wire(mechanism.layout, report)
            if isinstance(decoded, str):
                return decoded
            row = decoded.tobytes()
            if kind and len(self._read) < _MOST_READ:
                self._read[kind] = row
        ticket = decode_ticket(item["ticket"])
        if ticket is None or not known(ticket):
            return "ticket_unknown"
        return Item(way, row, digest_of(ticket))

    def estimate(self) -> SurveyEstimate:
        """Estimate shares from all reports, for the collector alone."""
        return self._estimate_survey(self.store.read())

    def published(self) -> SurveyEstimate:
        """Estimate shares for the public, from the reports up to the last published group.

        Renewed by groups of reports, so that nobody can watch a single report arrive.
        """
        return self._estimate_survey(self.store.published())

    def _estimate_survey(self, stored: StoredReports) -> SurveyEstimate:
        estimates = []
        for way, mechanism in self.mechanisms.items():
            rows = {row: people for (of, row), people in stored.reports.items() if of == way}
            if rows:
                pieces = _spread(rows, mechanism.layout.dtype)
                estimates.append((mechanism, mechanism.merge(map(mechanism.sum_rows, pieces))))
        return SurveyEstimate.of(self.round, estimates, stored.rejected, stored.closed)

    def close_round(self) -> SurveyEstimate:
        """Close the round permanently and estimate.

        Returns
        -------
        SurveyEstimate
            The final result.

        Raises
        ------
        ParameterError
            If the round has not opened yet.
        PolicyError
            If it is closed already.
        """
        if self._now() < self.round.opens:
            raise ParameterError(
                "round_not_open",
                f"The round has not opened yet: it opens {stamp(self.round.opens)}. "
                "Close it after that.",
            )
        self.store.close_round(stamp(self._now()))
        return self.estimate()

    def close(self) -> None:
        """Close the store."""
        self.store.close()


def _spread(rows: Mapping[bytes, int], dtype: np.dtype[Any]) -> Iterator[NDArray[Any]]:
    """Repeat each row by its count, in pieces of bounded size."""
    stacked = np.frombuffer(b"".join(rows), dtype=dtype)
    times = np.array(list(rows.values()), dtype=np.int64)
    ends = np.cumsum(times)
    for start in range(0, int(ends[-1]), _PIECE):
        indices = np.arange(start, min(start + _PIECE, int(ends[-1])))
        yield stacked[np.searchsorted(ends, indices, side="right")]


_PIECE = 1 << 20
_MOST_READ = 10_000
_FIELDS = {"ticket", "report", "way"}


# The 97.5 % quantile of the normal distribution.
_WITHIN_95 = 1.959963984540054


@dataclass(frozen=True, repr=False)
class SurveyEstimate(Shown):
    """The result of a round: the share of each choice with its error, and the rejected items.

    A share is unbiased, so a rare choice may come out below 0. `sd` covers the randomness of the
    reports only, and not how well those who answered represent others.
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
        """Combine the sketches of all ways of reporting.

        Each way estimates its numbers of people without bias and independently, so both the
        numbers and their variances add up.
        """
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
        """The result as JSON, for `sfumato survey --json` and the server."""
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
        """Each choice with its share and the ends of its 95 % interval."""
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
        """Write the result as a self-contained HTML page."""
        from sfumato.methods.local.survey_page import ShownResult, result_report

        shown = ShownResult(self.bars(), self.n, self.rejected, self.closed)
        page = result_report(self.round.question, str(self.round.epsilon), shown)
        write_text(path, page, overwrite=overwrite)

    def _card(self) -> Card:
        rejected = sum(self.rejected.values())
        rows = [
            [row["value"], row["share"], row["bound95"]]
            for row in self.table.slice(0, 10).to_pylist()
        ]
        return Card(
            line=f"{self.n:,} answers to {self.round.question!r}, {rejected:,} rejected",
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


SURVEYS = "surveys"
"""The folder of a vault that holds its rounds."""


class RoundFolder:
    """The rounds of a folder by id, each opened once; new files are noticed on the next lookup."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, Lock()
        self._seen: set[tuple[str, int, bool]] = set()
        self._open: dict[str, Collection] = {}

    def __call__(self, round_id: str) -> Collection | None:
        """The round with this id, if there is one."""
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
            # A file that is no round, or has no key beside it, collects nothing here.
            with suppress(SfumatoError):
                collection = Collection(path)
                self._open.setdefault(collection.round.id, collection)


@cache
def rounds_of(vault_folder: Path) -> RoundFolder:
    """The rounds of a vault."""
    return RoundFolder(vault_folder / SURVEYS)
