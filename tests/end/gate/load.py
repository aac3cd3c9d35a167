"""Many clients at once, in a process of their own, so that they take nothing from the server's.

Run as a program it asks one server for a while and prints what it heard as JSON: how many replies
of each status, how long they took, and the receipts of the answers.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from dataclasses import dataclass, field
from typing import Any

AGES = [(low, high) for high in range(20, 110, 5) for low in range(0, 20, 4)]


@dataclass
class Heard:
    """What all clients heard."""

    statuses: dict[int, int] = field(default_factory=dict)
    seconds: list[float] = field(default_factory=list)
    receipts: list[str] = field(default_factory=list)
    broken: int = 0
    """Connections that the server left without a reply."""


def question(number: int) -> bytes:
    """A question at a price that nobody else offers, so that every answer is charged and made."""
    low, high = AGES[number % len(AGES)]
    sql = f"SELECT COUNT(*) FROM people WHERE age >= {low} AND age < {high}"
    return json.dumps({"sql": sql, "epsilon": f"0.{number:09d}"}).encode()


def request(body: bytes, token: str) -> bytes:
    """A question as it is sent on a connection that is kept."""
    lines = [
        "POST /v1/query HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {token}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def reply(reader: asyncio.StreamReader) -> tuple[int, Any]:
    """The next reply on a connection."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.split("content-length:", 1)[1].split("\r\n", 1)[0])
    return int(head[9:12]), json.loads(await reader.readexactly(length))


async def ask(port: int, token: str, first: int, until: float, heard: Heard) -> None:
    """Ask one question after another until the time is over or the server is gone."""
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        heard.broken += 1
        return
    number = first
    try:
        while time.monotonic() < until:
            begun = time.monotonic()
            writer.write(request(question(number), token))
            status, told = await reply(reader)
            heard.seconds.append(time.monotonic() - begun)
            heard.statuses[status] = heard.statuses.get(status, 0) + 1
            if status == 200:
                heard.receipts.append(told["receipt"])
            number += 1
    except (OSError, EOFError):
        heard.broken += 1
    writer.close()


async def crowd(port: int, tokens: list[str], seconds: float, first: int) -> Heard:
    """As many clients as there are tokens."""
    heard, until = Heard(), time.monotonic() + seconds
    asking = (
        ask(port, token, first + 100_000 * place, until, heard)
        for place, token in enumerate(tokens)
    )
    await asyncio.gather(*asking)
    return heard


if __name__ == "__main__":
    asked = json.load(sys.stdin)
    found = asyncio.run(crowd(asked["port"], asked["tokens"], asked["seconds"], asked["first"]))
    json.dump(vars(found), sys.stdout)
