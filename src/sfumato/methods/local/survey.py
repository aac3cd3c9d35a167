"""The client of a survey: it checks the round, randomizes answers here and sends reports.

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
from sfumato.methods.local.tickets import NONCE_BYTES, decode_ticket, encode_ticket
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
"""Reports per request: fewer than a server accepts from one address in an hour."""
_TOO_MANY_REQUESTS = 429
_LARGEST = 1 << 20


class SurveyReports(Shown):
    """Randomized reports of one round, one for each answer, without the answers.

    Each report has its own ticket, so sending or saving it again never counts it twice.
    """

    def __init__(self, asked: Round, items: Sequence[dict[str, Any]]) -> None:
        self.round, self.items = asked, list(items)
        self.issued = 0
        """The number of leading reports whose ticket the collector has replaced by its own."""

    def __len__(self) -> int:
        return len(self.items)

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a batch file for `sfumato collect`.

        Parameters
        ----------
        path : path
            The file to write.
        overwrite : bool
            Whether to replace a file that is there.

        Returns
        -------
        Path
            The written file.

        Raises
        ------
        OutputError
            If the file exists or cannot be written.
        """
        target = arguments.path(path, "path")
        write_batch(target, self.round.id, self.items, overwrite=overwrite)
        return target

    def _card(self) -> Card:
        line = f"{len(self):,} randomized reports for {self.round.question!r}"
        return Card(line, {"round": self.round.id, "epsilon of each": str(self.round.epsilon)})


class Survey(Shown):
    """A survey round, read from a file or the address of its page, to answer it.

    The signature of the round is checked, and its id too if the address contains it: an invitation
    with that address fixes question, mechanism and epsilon.

    Parameters
    ----------
    source : str or Path
        The round's TOML file, or the address of its page.
    id : str, optional
        The id of the round, if the invitation states it separately.

    Raises
    ------
    PolicyError
        If the round was changed after it was signed, or is another one than `id`.
    SourceError
        If the file or the address cannot be read.

    Examples
    --------
    >>> import sfumato as sf
    >>> survey = sf.Survey("https://example.org/survey/lqor...")  # doctest: +SKIP
    >>> survey.send(survey.randomize(["yes", "no", "yes"]))  # doctest: +SKIP
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
            text = self._send_request("GET", f"{self._site.path.rstrip('/')}/round.toml")
            self.round = parse_round(text.decode("utf-8", "replace"), "at this address")
        if expected and expected != self.round.id:
            raise PolicyError(
                "round_changed",
                f"This is the round {self.round.id}, not {arguments.shown(expected)} of the "
                "invitation: question, mechanism or epsilon may differ. Nothing was sent.",
            )
        self._mechanism = ways_of(self.round)[DEVICE]

    @property
    def question(self) -> str:
        """The question."""
        return self.round.question

    @property
    def choices(self) -> tuple[str, ...]:
        """The possible answers."""
        return self.round.choices

    def randomize(self, answers: object, entropy: Entropy | None = None) -> SurveyReports:
        """Make one randomized report for each answer; the answers go no further.

        Make reports once and keep them: a second report of the same answer reveals more.

        Parameters
        ----------
        answers : list, array or column
            One choice for each person.
        entropy : Entropy, optional
            The source of randomness; the operating system by default.

        Returns
        -------
        SurveyReports
            One report with a ticket for each answer.

        Raises
        ------
        ParameterError
            If an answer is none of the choices; it is not quoted.
        """
        reports = self._mechanism.randomize(answers, entropy)
        nonces = SystemEntropy().words(2 * len(reports)).tobytes()
        return SurveyReports(
            self.round,
            [
                {
                    "ticket": encode_ticket(nonces[NONCE_BYTES * at : NONCE_BYTES * (at + 1)]),
                    "report": to_wire(reports.layout, row),
                }
                for at, row in enumerate(reports.rows)
            ],
        )

    def send(self, reports: SurveyReports) -> Delivery:
        """Send reports to the collector.

        After a failure of the network send the same reports again: those that had arrived are
        rejected as replayed and count once.

        Parameters
        ----------
        reports : SurveyReports
            What `randomize` returned.

        Returns
        -------
        Delivery
            The accepted number, and the index and reason of each rejected report.

        Raises
        ------
        ParameterError
            If the reports are of another round, or this survey was read from a file.
        SourceError
            If the collector cannot be reached or limits the rate.
        """
        arguments.require(reports, "reports", SurveyReports, "what randomize() gave")
        if self._site is None:
            raise ParameterError(
                "address_malformed",
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
            # Reports that were sent before keep their tickets: they may have arrived.
            if start >= reports.issued:
                self._give_tickets(piece)
                reports.issued = start + len(piece)
            delivery = self._read_delivery(
                self._send_request("POST", self._reports(), {"reports": piece}), piece
            )
            accepted += delivery.accepted
            rejected += [(start + index, reason) for index, reason in delivery.rejected]
        return Delivery(accepted, rejected)

    def _read_delivery(self, answer: bytes, piece: Sequence[object]) -> Delivery:
        """Read the collector's reply, and refuse one that does not add up."""
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
            raise self._unreachable("an invalid reply")
        return Delivery(reply["accepted"], rejected)

    def _give_tickets(self, items: Sequence[dict[str, Any]]) -> None:
        """Replace the tickets that were drawn here by tickets of the collector."""
        answer = self._send_request("POST", f"{self._reports()}/tickets", {"count": len(items)})
        try:
            tickets = json.loads(answer)["tickets"]
            sound = (
                len({decode_ticket(ticket) for ticket in tickets} - {None})
                == len(tickets)
                == len(items)
            )
        except (ValueError, TypeError, LookupError, RecursionError):
            sound = False
        if not sound:
            raise self._unreachable("invalid tickets")
        for item, ticket in zip(items, tickets, strict=True):
            item["ticket"] = ticket

    def _reports(self) -> str:
        return f"/v1/reports/{self.round.id}"

    def _send_request(self, method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
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
                f"The collector at {self._site.hostname} accepts no more reports from this address "
                f"in this hour. Send the same reports again in {_number(wait)} s: each counts "
                "once. Or save them, and let the collector add the file with 'sfumato collect'.",
            )
        raise self._unreachable(f"status {response.status}")

    def _unreachable(self, reason: str) -> SourceError:
        assert self._site is not None
        return SourceError(
            "collector_unreachable",
            f"The collector at {self._site.hostname} answered with {reason}. Check that the "
            "address is that of the survey's page, then send the same reports again.",
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
            "address_malformed",
            "The address of a survey is that of its page, such as https://example.org/survey/ID.",
        )
    return address


def _connection(site: SplitResult) -> HTTPConnection:
    assert site.hostname is not None
    kind = HTTPSConnection if site.scheme == "https" else HTTPConnection
    return kind(site.hostname, site.port, timeout=_SECONDS)


def _number(text: str) -> str:
    """A number of seconds from a server's header; an hour if it is none.

    A hostile header must not reach the terminal.
    """
    return text if text.isascii() and text.isdigit() and len(text) < 7 else "3600"
