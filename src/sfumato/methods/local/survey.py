"""A survey as other programs answer it: the round is checked, answers are randomized here.

survey = sf.Survey("https://example.org/survey/lqorctai5izggw3d7quy")
survey.send(survey.randomize(["yes", "no", "yes"]))
"""

from __future__ import annotations

import json
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from sfumato import arguments
from sfumato.errors import ParameterError, PolicyError, SourceError
from sfumato.methods.local.batches import write_batch
from sfumato.methods.local.collection import DEVICE, REASONS, Delivery, ways_of
from sfumato.methods.local.reports import to_wire
from sfumato.methods.local.rounds import load_round, parse_round, stamp
from sfumato.methods.local.tickets import NONCE_BYTES, read, written
from sfumato.privacy.noise.entropy import SystemEntropy
from sfumato.report.display import Card, Shown
from sfumato.text import dumps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from urllib.parse import SplitResult

    from sfumato.methods.local.rounds import Round
    from sfumato.privacy.noise.entropy import Entropy

_SECONDS = 30.0
_AT_ONCE = 20
"""Reports in one request: fewer than a process of a server takes an hour from one address."""
_TOO_MANY_REQUESTS = 429
_LARGEST = 1 << 20


class SurveyReports(Shown):
    """Randomized reports of one round, one for each answer; the answers are not in it.

    Each has a ticket of its own, so that sending or saving it again never counts it twice.
    """

    def __init__(self, asked: Round, items: Sequence[dict[str, Any]]) -> None:
        self.round, self.items = asked, list(items)
        self.issued = 0
        """How many, from the first on, have a ticket of the collector in place of their own."""

    def __len__(self) -> int:
        return len(self.items)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a batch file for `sfumato collect`."""
        target = arguments.path(path, "path")
        write_batch(target, self.round.id, self.items, overwrite=overwrite)
        return target

    def _card(self) -> Card:
        line = f"{len(self):,} randomized reports for {self.round.question!r}"
        return Card(line, {"round": self.round.id, "epsilon of each": str(self.round.epsilon)})


class Survey(Shown):
    """A round that one can answer: a file, or the address of its page.

    Its signature is checked, and so is its id where the address names it: an invitation with that
    address pins question, mechanism and epsilon. Give `id` where the invitation told it otherwise.
    """

    def __init__(self, source: str | Path, *, id: str | None = None) -> None:  # noqa: A002
        arguments.require(
            source, "source", (str, Path), "a file of a round or the address of its page"
        )
        self._site = _address(str(source)) if "://" in str(source) else None
        expected = arguments.maybe_text(id, "id")
        if self._site is None:
            self.round = load_round(arguments.path(source, "source"))
        else:
            expected = expected or self._site.path.rstrip("/").rpartition("/")[2]
            text = self._asked("GET", f"{self._site.path.rstrip('/')}/round.toml")
            self.round = parse_round(text.decode("utf-8", "replace"), "at this address")
        if expected and expected != self.round.id:
            raise PolicyError(
                "round_changed",
                f"This is the round {self.round.id}, not {arguments.shown(expected)}, to which was "
                "invited: question, mechanism or epsilon may be others. Nothing was sent.",
            )
        self._mechanism = ways_of(self.round)[DEVICE]

    @property
    def question(self) -> str:
        """What is asked."""
        return self.round.question

    @property
    def choices(self) -> tuple[str, ...]:
        """What can be answered."""
        return self.round.choices

    def randomize(self, answers: object, entropy: Entropy | None = None) -> SurveyReports:
        """Make one report for each answer: the last that is done with answers themselves.

        Make them once and keep them: a second report of the same answer tells more of a person.
        """
        reports = self._mechanism.randomize(answers, entropy)
        nonces = SystemEntropy().words(2 * len(reports)).tobytes()
        return SurveyReports(
            self.round,
            [
                {
                    "ticket": written(nonces[NONCE_BYTES * at : NONCE_BYTES * (at + 1)]),
                    "report": to_wire(reports.layout, row),
                }
                for at, row in enumerate(reports.rows)
            ],
        )

    def send(self, reports: SurveyReports) -> Delivery:
        """Send reports to the collector; what it rejected is told by place and reason.

        After a failure of the network send the same reports again: what had arrived is then told
        as replayed, and counted once.
        """
        arguments.require(reports, "reports", SurveyReports, "what randomize() gave")
        if self._site is None:
            raise ParameterError(
                "url_invalid",
                "This survey was read from a file, so there is nowhere to send to. Save the "
                "reports, or open the survey by its address: sf.Survey('https://...').",
            )
        if reports.round != self.round:
            raise ParameterError(
                "round_differs",
                "These reports were made for another round. Randomize by this survey.",
            )
        accepted, rejected = 0, []
        for start in range(0, len(reports), _AT_ONCE):
            piece = reports.items[start : start + _AT_ONCE]
            if start >= reports.issued:  # else they keep it: they may have arrived before
                self._give_tickets(piece)
                reports.issued = start + len(piece)
            delivery = self._delivered(
                self._asked("POST", self._reports(), {"reports": piece}), piece
            )
            accepted += delivery.accepted
            rejected += [(start + index, reason) for index, reason in delivery.rejected]
        return Delivery(accepted, rejected)

    def _delivered(self, answer: bytes, piece: Sequence[object]) -> Delivery:
        """What became of reports, where the collector says it in a way that can be."""
        try:
            reply = json.loads(answer)
            rejected = [(entry["index"], entry["code"]) for entry in reply["rejected"]]
            indices = {index for index, _ in rejected if type(index) is int}
            sound = (
                type(reply["accepted"]) is int
                and reply["accepted"] + len(rejected) == len(piece)
                and len(indices & set(range(len(piece)))) == len(rejected)
                and {reason for _, reason in rejected} <= set(REASONS)
            )
        except (ValueError, TypeError, LookupError, RecursionError):
            sound = False
        if not sound:
            raise self._refused("what no collector of reports says")
        return Delivery(reply["accepted"], rejected)

    def _give_tickets(self, items: Sequence[dict[str, Any]]) -> None:
        """Give reports tickets of this collector in place of those that were drawn here."""
        answer = self._asked("POST", f"{self._reports()}/tickets", {"count": len(items)})
        try:
            tickets = json.loads(answer)["tickets"]
            sound = len({read(ticket) for ticket in tickets} - {None}) == len(tickets) == len(items)
        except (ValueError, TypeError, LookupError, RecursionError):
            sound = False
        if not sound:
            raise self._refused("what are not tickets, one for each report")
        for item, ticket in zip(items, tickets, strict=True):
            item["ticket"] = ticket

    def _reports(self) -> str:
        return f"/v1/reports/{self.round.id}"

    def _asked(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
        assert self._site is not None
        connection = _connection(self._site)
        try:
            headers = {"Content-Type": "application/json"} if body is not None else {}
            sent = None if body is None else dumps(body).encode()
            connection.request(method, path, sent, headers)
            response = connection.getresponse()
            answer = response.read(_LARGEST)
        except (OSError, HTTPException) as error:
            raise SourceError(
                "collector_unreachable",
                f"The collector at {self._site.hostname} cannot be reached. Try again later with "
                "the same reports.",
                detail=str(error),
            ) from None
        finally:
            connection.close()
        if response.status == 200 or (response.status == 422 and b'"rejected"' in answer):
            return answer
        if response.status == _TOO_MANY_REQUESTS:
            wait = response.getheader("Retry-After", "")
            raise SourceError(
                "collector_unreachable",
                f"The collector at {self._site.hostname} takes so many reports an hour from one "
                f"address and no more. Send the same reports again in {_number(wait)} s: what "
                "arrived before is counted once. Or save them, and let the collector bring the "
                "file by 'sfumato collect'.",
            )
        raise self._refused(f"status {response.status}")

    def _refused(self, reason: str) -> SourceError:
        assert self._site is not None
        return SourceError(
            "collector_unreachable",
            f"The collector at {self._site.hostname} answered with {reason}. Look whether the "
            "address is that of the survey's page, and send the same reports again.",
        )

    def _card(self) -> Card:
        asked = self.round
        return Card(
            line=f"{asked.question!r}, {asked.mechanism} at epsilon {asked.epsilon}",
            facts={
                "round": asked.id,
                "choices": ", ".join(asked.choices),
                "open": f"{stamp(asked.opens)} to {stamp(asked.closes)}",
            },
        )


def _address(text: str) -> SplitResult:
    try:
        address = urlsplit(text)
        sound = address.scheme in {"http", "https"} and address.hostname and address.port != 0
    except ValueError:
        sound = False
    if not sound or not text.isascii() or not text.isprintable() or " " in text:
        raise ParameterError(
            "url_invalid",
            "The address of a survey is that of its page, as https://example.org/survey/ID.",
        )
    return address


def _connection(site: SplitResult) -> HTTPConnection:
    assert site.hostname is not None
    kind = HTTPSConnection if site.scheme == "https" else HTTPConnection
    return kind(site.hostname, site.port, timeout=_SECONDS)


def _number(text: str) -> str:
    """A number of seconds that a server sent, in digits alone; an hour where it sent none."""
    return text if text.isascii() and text.isdigit() and len(text) < 7 else "3600"
