"""Reports as they come in: what is none of the round is rejected by itself, counted, not quoted."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from sfumato.errors import ParameterError, PolicyError, SourceError
from sfumato.methods.local.collection import DEVICE, HAND, REASONS, Collection
from sfumato.methods.local.reports import from_wire, to_wire
from sfumato.methods.local.rounds import new_round
from sfumato.methods.local.survey import Survey
from sfumato.testing.entropy import SeededEntropy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPENS = datetime(2027, 1, 1, tzinfo=UTC)


class Clock:
    now = OPENS + timedelta(days=1)

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "mood.toml"
    closes = OPENS + timedelta(days=30)
    new_round(file, "How?", ("good", "so so", "bad"), epsilon=1, opens=OPENS, closes=closes)
    return file


@pytest.fixture
def collection(path: Path, clock: Clock) -> Iterator[Collection]:
    with closing(Collection(path, now=clock)) as opened:
        yield opened


def ticketed(collection: Collection, report: object, **more: object) -> dict[str, object]:
    return {"ticket": collection.tickets()[0], "report": report, **more}


BAD: list[tuple[object, str]] = [
    (3, "outside_domain"),
    (-1, "outside_domain"),
    (10**30, "outside_domain"),
    (1.0, "malformed"),
    (True, "malformed"),
    ("1", "malformed"),
    (None, "malformed"),
    ([1], "malformed"),
    ({"report": 1}, "malformed"),
]


@pytest.mark.parametrize(("report", "reason"), BAD, ids=str)
def test_what_is_no_report_is_rejected(collection: Collection, report: object, reason: str) -> None:
    told = collection.receive([ticketed(collection, 0), ticketed(collection, report)])
    assert told.to_json() == {"accepted": 1, "rejected": [{"index": 1, "code": reason}]}
    found = collection.estimate()
    assert (found.n, found.rejected) == (1, {reason: 1})


def test_what_came_before_does_not_vouch_for_what_looks_like_it(collection: Collection) -> None:
    items = [ticketed(collection, one) for one in (1, True, 1.0, "1")]
    assert collection.receive(items).rejected == [(place, "malformed") for place in (1, 2, 3)]


@pytest.mark.parametrize(
    "item", [None, 3, [], {}, {"report": 1}, {"ticket": "x"}, "x"], ids=lambda one: str(one)
)
def test_what_is_no_item_is_malformed(collection: Collection, item: object) -> None:
    assert collection.receive([item]).reasons == {"malformed": 1}


def test_an_item_says_nothing_else(collection: Collection) -> None:
    item = ticketed(collection, 1, answer="good")
    assert collection.receive([item]).reasons == {"malformed": 1}


@pytest.mark.parametrize("ticket", ["", "x", None, 5, "A" * 43, "A" * 22])
def test_a_ticket_of_ones_own_does_not_do_over_the_network(
    collection: Collection, ticket: object
) -> None:
    told = collection.receive([{"ticket": ticket, "report": 1}])
    assert told.reasons == {"ticket_unknown": 1}


def test_a_way_that_the_round_does_not_have_is_rejected(collection: Collection) -> None:
    ways: list[Any] = ["magic", None, 3, [], {}]
    told = collection.receive([ticketed(collection, 1, way=way) for way in ways])
    assert told.reasons == {"way_unknown": 5}


def test_a_replayed_report_counts_once(collection: Collection) -> None:
    item = ticketed(collection, 1)
    changed = {**item, "report": 2}
    assert collection.receive([item, item]).rejected == [(1, "replayed")]
    assert collection.receive([changed]).rejected == [(0, "replayed")]
    assert collection.collect([item]).rejected == [(0, "replayed")]
    assert collection.estimate().n == 1


def test_before_and_after_the_round_nothing_is_taken(collection: Collection, clock: Clock) -> None:
    item = ticketed(collection, 1)
    clock.now = OPENS - timedelta(seconds=1)
    assert collection.receive([item]).reasons == {"not_open": 1}
    assert collection.collect([item]).reasons == {"not_open": 1}
    with pytest.raises(ParameterError) as refusal:
        collection.close_round()
    assert refusal.value.code == "round_not_open"
    clock.now = collection.round.closes
    assert collection.receive([item]).reasons == {"closed": 1}
    # What was gathered in time may be brought later.
    assert collection.collect([item]).accepted == 1
    clock.now = collection.round.closes + timedelta(days=1)
    collection.close_round()
    assert collection.state == "closed"
    assert collection.receive([item]).reasons == {"closed": 1}
    with pytest.raises(PolicyError):
        collection.collect([item])
    with pytest.raises(PolicyError):
        collection.close_round()


def test_a_clock_that_goes_back_does_not_open_what_was_closed(
    collection: Collection, clock: Clock
) -> None:
    collection.close_round()
    clock.now = OPENS + timedelta(hours=1)
    assert collection.receive([ticketed(collection, 1)]).reasons == {"closed": 1}


def test_a_ticket_of_another_round_is_unknown(collection: Collection, tmp_path: Path) -> None:
    """Even under the same key."""
    (tmp_path / "other.key").write_bytes((tmp_path / "mood.key").read_bytes())
    (tmp_path / "other.key").chmod(0o600)
    new_round(tmp_path / "other.toml", "How?", ("good", "so so", "bad"), epsilon=1)
    with closing(Collection(tmp_path / "other.toml")) as other:
        item = ticketed(other, 1)
        assert other.round.key == collection.round.key
        assert collection.receive([item]).reasons == {"ticket_unknown": 1}
        assert other.receive([item]).accepted == 1


def test_every_reason_is_explained(collection: Collection) -> None:
    for reason in ("too_many", "malformed"):
        collection.reject(reason, 2)
    assert set(collection.estimate().rejected) <= set(REASONS)


def test_the_estimate_is_that_of_both_ways_together(collection: Collection) -> None:
    """People by device and by hand are added up, each by its own exact chances."""
    counts = {DEVICE: (500, 300, 200), HAND: (40, 30, 30)}
    for way, people in counts.items():
        reports = [place for place, many in enumerate(people) for _ in range(many)]
        tickets = collection.tickets(len(reports))
        items = [
            {"ticket": ticket, "report": report, "way": way}
            for ticket, report in zip(tickets, reports, strict=True)
        ]
        assert collection.receive(items).accepted == len(items)
    found = collection.estimate()
    assert found.n == 1100
    device, hand = (collection.mechanisms[way] for way in (DEVICE, HAND))
    for place in range(3):
        whole, variance = Fraction(0), 0.0
        for way, mechanism in ((DEVICE, device), (HAND, hand)):
            n, p, q = sum(counts[way]), mechanism.p, mechanism.q  # type: ignore[attr-defined]
            share = (Fraction(counts[way][place], n) - q) / (p - q)
            whole += n * share
            variance += mechanism.variance(n, min(max(float(share), 0.0), 1.0)) * n**2
        row = found.table.slice(place, 1).to_pylist()[0]
        assert row["share"] == pytest.approx(float(whole / 1100), abs=1e-12)
        assert row["sd"] == pytest.approx(variance**0.5 / 1100, rel=1e-9)
        assert row["bound95"] == pytest.approx(1.959964 * row["sd"], rel=1e-6)
    assert found.table["share"].to_numpy().sum() == pytest.approx(1)


def test_without_reports_there_is_no_estimate(collection: Collection) -> None:
    found = collection.estimate().to_json()
    assert found["n"] == 0
    assert found["estimate"]["good"] == {"share": None, "sd": None, "bound95": None}


def test_many_reports_take_little_memory_and_time(collection: Collection) -> None:
    """However many people said the same, it is one row; all are counted."""
    base = collection.store._base
    base.execute("INSERT INTO reports VALUES ('device', x'00', 3000000), ('device', x'02', 1)")
    assert collection.estimate().n == 3_000_001


def test_shares_of_a_batch_lie_within_their_bound(path: Path, collection: Collection) -> None:
    survey = Survey(path)
    answers = ["good"] * 6000 + ["bad"] * 4000
    reports = survey.randomize(answers, SeededEntropy(7))
    assert collection.collect_file(reports.save(path.with_name("batch.jsonl"))).accepted == 10_000
    rows = collection.estimate().table.to_pylist()
    for row, truth in zip(rows, (0.6, 0.0, 0.4), strict=True):
        assert abs(row["share"] - truth) < 4.9 * row["sd"]  # 1e-6


def test_a_batch_is_of_one_round_and_its_bad_lines_are_counted(
    path: Path, collection: Collection, tmp_path: Path
) -> None:
    place = Survey(path).randomize(["good", "bad"]).save(tmp_path / "batch.jsonl")
    lines = place.read_text().splitlines()
    place.write_text("\n".join([*lines, "{broken", "[" * 5000, "", '{"ticket": 1}', lines[1]]))
    told = collection.collect_file(place)
    assert told.accepted == 2
    assert told.reasons == {"malformed": 3, "replayed": 1}
    long = "[" + "1," * 100_000 + "1]"
    place.write_text("\n".join([*lines, long, "x" * 300_000]))
    assert collection.collect_file(place).reasons == {"malformed": 2, "replayed": 2}
    place.write_text("\n".join([lines[0].replace(collection.round.id, "x" * 20), *lines[1:]]))
    with pytest.raises(SourceError) as refusal:
        collection.collect_file(place)
    assert refusal.value.code == "round_differs"
    for text in ("", "\n", "ticket,report\n", "\x00" * 100, "[]"):
        place.write_text(text)
        with pytest.raises(SourceError) as refusal:
            collection.collect_file(place)
        assert refusal.value.code == "file_malformed"
    with pytest.raises(SourceError):
        collection.collect_file(tmp_path)


def test_a_report_of_any_layout_travels_and_comes_back() -> None:
    from sfumato.methods.local.reports import Code, ReportLayout

    for layout in (
        ReportLayout((Code("report", 300),)),
        ReportLayout((), 13),
        ReportLayout((Code("seed", 1 << 40), Code("value", 5))),
        ReportLayout((Code("row", 9),), 8),
    ):
        row = layout.empty(1)
        for code in layout.codes:
            row[code.name] = code.limit - 1
        if layout.width:
            bits = np.arange(layout.width) % 3 == 0
            row["bits"] = np.packbits(bits, bitorder="little")
        back = from_wire(layout, to_wire(layout, row[0]))
        assert not isinstance(back, str)
        assert back.tobytes() == row.tobytes()
    assert from_wire(ReportLayout((), 3), "0120") == "malformed"
    assert from_wire(ReportLayout((), 3), "01") == "outside_domain"
    assert from_wire(ReportLayout((), 3), 5) == "malformed"
