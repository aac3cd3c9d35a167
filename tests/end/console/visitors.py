"""Who visits a console in tests, with and without a browser."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from sfumato.testing.servers import Client

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.testing.servers import Heard
    from sfumato.vault.vault import Vault

PASSWORD = "four words that differ"
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
SAME = {"Sec-Fetch-Site": "same-origin"}
_WORD = re.compile(rb'name="form" value="([0-9a-f]{64})"')


@dataclass(frozen=True)
class Console:
    """A vault, where its console is, and the link for its first owner."""

    vault: Vault
    url: str
    owner_link: str

    def visitor(self, name: str | None = None) -> Visitor:
        """Somebody without a browser, signed in by their name."""
        visitor = self.stranger()
        if name is not None:
            reply = visitor.send("/console/sign-in", name=name, password=PASSWORD)
            assert reply.status == 303, reply.body
        return visitor

    def stranger(self, address: str | None = None) -> Visitor:
        """Somebody who has never signed in, at an address of their own."""
        return Visitor(Client(self.url, source=address))


@dataclass
class Visitor:
    """Sends what a browser would, and keeps its cookies."""

    client: Client
    cookie: str = ""
    device: str = ""
    headers: Mapping[str, str] = field(default_factory=lambda: SAME)

    def get(self, path: str, headers: Mapping[str, str] | None = None) -> Heard:
        """A page."""
        return self._heard("GET", path, None, {**self._cookies(), **(headers or {})})

    def told(self, method: str, path: str) -> Heard:
        """What another method gives."""
        return self._heard(method, path, None, self._cookies())

    def send(self, path: str, page: str | None = None, **fields: str) -> Heard:
        """A form, with the word of the page that it stands on."""
        word = fields.pop("word", None) or self.word(page or path)
        return self.post(path, {"form": word, **fields})

    def post(
        self, path: str, fields: Mapping[str, str], headers: Mapping[str, str] | None = None
    ) -> Heard:
        """A form as it is."""
        sent = {**FORM, **self.headers, **self._cookies(), **(headers or {})}
        return self._heard("POST", path, urlencode(fields).encode(), sent)

    def word(self, path: str) -> str:
        """The word of the forms on a page."""
        found = _WORD.search(self.get(path).body)
        assert found is not None, path
        return found[1].decode()

    def _cookies(self) -> dict[str, str]:
        named = {"sfumato": self.cookie, "sfumato-device": self.device}
        shown = "; ".join(f"{name}={value}" for name, value in named.items() if value)
        return {"Cookie": shown} if shown else {}

    def _heard(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> Heard:
        heard = self.client.ask(method, path, body, headers)
        for given in heard.cookies:
            name, _, value = given.partition(";")[0].partition("=")
            if name == "sfumato":
                self.cookie = value.strip('"')
            else:
                self.device = value
        return heard
