"""Decode text of any encoding to UTF-8 in blocks, and guess the encoding from bytes.

Decision `reading-files`.
"""

from __future__ import annotations

import codecs
from typing import TYPE_CHECKING

from sfumato.errors import SourceError

if TYPE_CHECKING:
    from sfumato.data.files.csv_shape import ByteStream
    from sfumato.data.files.file_identity import RegularFile

MARKS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
"""Byte order marks; of two with a common prefix the longer one comes first."""

# Bytes without a letter in Windows-1252.
_NOT_WINDOWS = (b"\x81", b"\x8d", b"\x8f", b"\x90", b"\x9d")

_BLOCK = 1 << 20


def marked(first: bytes) -> str | None:
    """The encoding of the byte order mark, if there is one."""
    return next((name for mark, name in MARKS.items() if first.startswith(mark)), None)


def guess_encoding(stream: ByteStream) -> str:
    """The assumed encoding of text that is not UTF-8: Windows-1252, else ISO-8859-1."""
    while block := stream.read(_BLOCK):
        if any(byte in block for byte in _NOT_WINDOWS):
            return "iso-8859-1"
    return "windows-1252"


class Prefixed:
    """A stream that returns bytes which were already read before the rest."""

    def __init__(self, first: bytes, stream: ByteStream) -> None:
        self._first = first
        self._stream = stream

    def read(self, size: int) -> bytes:
        """Read this many bytes, fewer only at the end."""
        if not self._first:
            return self._stream.read(size)
        first, self._first = self._first[:size], self._first[size:]
        return first + self._stream.read(size - len(first))

    def close(self) -> None:
        """Close what is behind."""
        self._stream.close()


class Decoded:
    """A stream in any encoding, decoded to UTF-8.

    Malformed bytes are refused, or become U+FFFD where reading is not `strict`. *Attack*: otherwise
    one person's cell would decide whether queries are answered.
    """

    def __init__(
        self, stream: ByteStream, codec: str, file: RegularFile, *, strict: bool = True
    ) -> None:
        self._stream = stream
        self._codec = codec
        self._file = file
        self._decoder = codecs.getincrementaldecoder(codec)("strict" if strict else "replace")
        self._taken = 0
        self._lines = 1
        self._ended = False
        # A single-byte encoding decodes almost any bytes, so a wrong declaration is not noticed.
        # Text in such an encoding is almost never valid UTF-8; a valid file was mis-declared.
        suspicious = strict and len(bytes(range(256)).decode(codec, "replace")) == 256
        self._utf8 = codecs.getincrementaldecoder("utf-8")() if suspicious else None
        self._foreign = False

    def read(self, size: int) -> bytes:
        """Read about this many bytes; none only at the end."""
        text = ""
        while not text and not self._ended:
            block = self._stream.read(size)
            self._ended = not block
            self._taken += len(block)
            self._look(block)
            text = self._decoded(block)
        self._lines += text.count("\n")
        return text.encode("utf-8", "replace")

    def close(self) -> None:
        """Close what is behind."""
        self._stream.close()

    def _decoded(self, block: bytes) -> str:
        try:
            return self._decoder.decode(block, final=self._ended)
        except UnicodeDecodeError as error:
            known = error.object[: error.start].decode(self._codec, "replace")
            offset = self._taken - len(error.object) + error.start
            line = self._lines + known.count("\n")
        raise SourceError(
            "encoding_wrong",
            f"The byte at offset {offset:,} (line {line:,}) of {self._file.name!r} is no letter of "
            f"its encoding, {self._codec}. Declare the encoding that it has in the schema, e.g. "
            'file.encoding = "windows-1252", or save the file as UTF-8.',
        )

    def _look(self, block: bytes) -> None:
        """Refuse, at the end, a file that is valid UTF-8 with letters beyond ASCII."""
        if self._utf8 is None:
            return
        try:
            self._utf8.decode(block, final=self._ended)
        except UnicodeDecodeError:
            self._utf8 = None
            return
        self._foreign = self._foreign or not block.isascii()
        if self._ended and self._foreign:
            raise SourceError(
                "encoding_wrong",
                f"{self._file.name!r} is UTF-8, but its schema declares "
                f'file.encoding = "{self._codec}". Remove that line, or name a file in that '
                "encoding.",
            )
