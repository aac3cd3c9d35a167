"""Ed25519 in exact integers, as RFC 8032 has it: what this project had before `cryptography`.

Tests compare with it byte for byte, and forge with it what no honest signer makes.
"""

from __future__ import annotations

from hashlib import sha512

Point = tuple[int, int, int, int]
"""X, Y, Z and T of a point: x = X/Z, y = Y/Z, x y = T/Z."""

KEY_BYTES = 32
SIGNATURE_BYTES = 64

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _P) % _P
_ROOT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
_NEUTRAL: Point = (0, 1, 1, 0)


def _plus(one: Point, other: Point) -> Point:
    a = (one[1] - one[0]) * (other[1] - other[0]) % _P
    b = (one[1] + one[0]) * (other[1] + other[0]) % _P
    c = 2 * one[3] * other[3] * _D % _P
    d = 2 * one[2] * other[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times(number: int, point: Point) -> Point:
    total = _NEUTRAL
    while number:
        if number & 1:
            total = _plus(total, point)
        point = _plus(point, point)
        number >>= 1
    return total


def _same(one: Point, other: Point) -> bool:
    return (one[0] * other[2] - other[0] * one[2]) % _P == 0 and (
        one[1] * other[2] - other[1] * one[2]
    ) % _P == 0


def _x_of(y: int, sign: int) -> int | None:
    """The x of a point by its y and the parity of x; none where there is no such point."""
    if y >= _P:
        return None
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    if square == 0:
        return None if sign else 0
    x = pow(square, (_P + 3) // 8, _P)
    if (x * x - square) % _P:
        x = x * _ROOT_OF_MINUS_ONE % _P
    if (x * x - square) % _P:
        return None
    return x if x & 1 == sign else _P - x


_BASE_Y = 4 * pow(5, -1, _P) % _P
_BASE_X = _x_of(_BASE_Y, 0) or 0
_BASE: Point = (_BASE_X, _BASE_Y, 1, _BASE_X * _BASE_Y % _P)


def _written(point: Point) -> bytes:
    inverse = pow(point[2], -1, _P)
    x, y = point[0] * inverse % _P, point[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(KEY_BYTES, "little")


def _read(text: bytes) -> Point | None:
    number = int.from_bytes(text, "little")
    y = number & ((1 << 255) - 1)
    x = _x_of(y, number >> 255)
    return None if x is None else (x, y, 1, x * y % _P)


def _read_prime_order(text: bytes) -> Point | None:
    """A point that generates the group of prime order, in its one spelling; else nothing.

    Every honest key and commitment is one. A key among the eight points of small order accepts one
    signature for one message in eight at least, a commitment among them hides no secret number, and
    implementations disagree about points with a part of small order.
    """
    point = _read(text)
    if point is None or _same(point, _NEUTRAL) or not _same(_times(_ORDER, point), _NEUTRAL):
        return None
    return point


def _hashed(*parts: bytes) -> int:
    return int.from_bytes(sha512(b"".join(parts)).digest(), "little") % _ORDER


def _expanded(secret: bytes) -> tuple[int, bytes]:
    digest = sha512(secret).digest()
    number = int.from_bytes(digest[:32], "little")
    return number & ((1 << 254) - 8) | (1 << 254), digest[32:]


def public_key(secret: bytes) -> bytes:
    """The key that the signatures of a secret of 32 bytes are checked with."""
    return _written(_times(_expanded(secret)[0], _BASE))


def sign(secret: bytes, message: bytes) -> bytes:
    """The signature of a message."""
    number, prefix = _expanded(secret)
    public = _written(_times(number, _BASE))
    once = _hashed(prefix, message)
    committed = _written(_times(once, _BASE))
    answer = (once + _hashed(committed, public, message) * number) % _ORDER
    return committed + answer.to_bytes(KEY_BYTES, "little")


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the secret behind a public key has signed this message."""
    if len(public) != KEY_BYTES or len(signature) != SIGNATURE_BYTES:
        return False
    key, committed = _read_prime_order(public), _read_prime_order(signature[:32])
    answer = int.from_bytes(signature[32:], "little")
    if key is None or committed is None or answer >= _ORDER:
        return False
    challenge = _hashed(signature[:32], public, message)
    return _same(_times(answer, _BASE), _plus(committed, _times(challenge, key)))
