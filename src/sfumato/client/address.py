"""The address of a server to which a token may be sent."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPSConnection
from ipaddress import ip_address
from urllib.parse import urlsplit

from sfumato import arguments
from sfumato.errors import ParameterError

_PORTS = {"http": 80, "https": 443}
_HOST = re.compile(r"[A-Za-z0-9._-]{1,253}|[0-9A-Fa-f:.]{2,45}")
_TOKEN = re.compile(r"sfu_[A-Za-z0-9_-]{8,200}")


@dataclass(frozen=True)
class Address:
    """The host and port of a server, whether it is encrypted, and the prefix of its paths."""

    host: str
    port: int
    encrypted: bool
    prefix: str = ""

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = "https" if self.encrypted else "http"
        port = "" if self.port == _PORTS[scheme] else f":{self.port}"
        return f"{scheme}://{host}{port}{self.prefix}"

    def open_connection(self, seconds: float, trust: ssl.SSLContext | None) -> HTTPConnection:
        """Make a connection, whose certificate is verified; nothing is sent yet."""
        if not self.encrypted:
            return HTTPConnection(self.host, self.port, timeout=seconds)
        return HTTPSConnection(self.host, self.port, timeout=seconds, context=trust)


def read_address(url: object) -> Address:
    """Read an address; refused if others could read a token on its way there."""
    text = arguments.text(url, "url").strip()
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        raise _wrong("it cannot be read") from None
    if parts.scheme not in _PORTS or not _HOST.fullmatch(host):
        raise _wrong("it must begin with https:// and name a host")
    # A password in an address would end up in logs and shell histories.
    if parts.username is not None or parts.password is not None:
        raise _wrong("it must have no name and password: the token says who asks")
    if parts.query or parts.fragment:
        raise _wrong("it must end with the host, or with the path of the service")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ParameterError(
            "address_malformed",
            f"Cannot send a token to {host!r} by http://: whoever is on the way could read it. Use "
            "https://, or a tunnel to 127.0.0.1.",
        )
    # A proxy may serve Sfumato below a path of its own.
    prefix = parts.path.rstrip("/").removesuffix("/v1")
    return Address(
        host, _PORTS[parts.scheme] if port is None else port, parts.scheme == "https", prefix
    )


def read_token(token: object) -> str:
    """Read a token. No message quotes it, because messages end up in logs."""
    text = token.strip() if isinstance(token, str) else ""
    if not _TOKEN.fullmatch(text):
        raise ParameterError(
            "parameter_type_wrong",
            "A token is a text that begins with sfu_, as 'sfumato token new' or the vault's owner "
            "gave it.",
            parameter="token",
        )
    return text


def read_trust(certificates: object) -> ssl.SSLContext | None:
    """Read the trusted certificates: those in a file, or the system's without one."""
    if certificates is None:
        return None
    file = arguments.path(certificates, "certificates")
    try:
        return ssl.create_default_context(cafile=file)
    except OSError as error:
        raise ParameterError(
            "certificate_unusable",
            f"Cannot read certificates from '{file}': {error.strerror or 'they are none'}. Give a "
            "PEM file of those whose signatures are to be trusted.",
        ) from None


def _is_loopback(host: str) -> bool:
    """Whether a host is this machine, so that http:// leaves it to nobody else."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _wrong(reason: str) -> ParameterError:
    return ParameterError(
        "address_malformed",
        f"Cannot connect to this address: {reason}. Give it as 'sfumato serve' printed it, such as "
        "http://127.0.0.1:8321.",
    )
