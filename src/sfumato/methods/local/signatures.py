"""Ed25519 signatures of rounds.

The package cryptography (OpenSSL) signs and verifies. It accepts keys that are refused here: under
a key among the eight points of small order one signature is valid for at least one message in
eight, and implementations disagree about keys with a component of small order. The package has no
call to detect such keys, so their order is checked here in exact integers. Keys are public, so the
time of the check reveals nothing. Decision `surveys`.
"""

from __future__ import annotations

from typing import Any

from sfumato.errors import ParameterError

KEY_BYTES = 32

_P = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
"""The prime order of the group that honest keys generate."""
_D = -121665 * pow(121666, -1, _P) % _P
"""The constant of the curve -x^2 + y^2 = 1 + _D x^2 y^2 modulo _P."""
_ROOT_OF_MINUS_ONE = pow(2, (_P - 1) // 4, _P)
_NEUTRAL = (1).to_bytes(KEY_BYTES, "little")
"""The neutral point as bytes: x = 0, y = 1."""


def public_key(secret: bytes) -> bytes:
    """The public key of a secret of 32 bytes."""
    private = _ed25519().Ed25519PrivateKey.from_private_bytes(secret)
    public: bytes = private.public_key().public_bytes_raw()
    return public


def sign(secret: bytes, message: bytes) -> bytes:
    """Sign a message."""
    signature: bytes = _ed25519().Ed25519PrivateKey.from_private_bytes(secret).sign(message)
    return signature


def verify(public: bytes, message: bytes, signature: bytes) -> bool:
    """Whether the secret behind a public key has signed this message."""
    library = _ed25519()
    from cryptography.exceptions import InvalidSignature

    # The commitment R must not be the neutral point: its nonce would be 0 and reveal the secret.
    # No other R of small order is valid under a key of prime order.
    if signature[:KEY_BYTES] == _NEUTRAL or not _has_prime_order(public):
        return False
    try:
        library.Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ParameterError(
            "package_missing",
            "Rounds need the package cryptography. Install it with: pip install 'sfumato[survey]'.",
        ) from None
    return ed25519


def _has_prime_order(key: bytes) -> bool:
    """Whether a key is a point of prime order, in its canonical encoding."""
    number = int.from_bytes(key, "little")
    y, sign_of_x = number & ((1 << 255) - 1), number >> 255
    if len(key) != KEY_BYTES or y >= _P:
        return False
    square = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    root = pow(square, (_P + 3) // 8, _P)
    x = next((x for x in (root, root * _ROOT_OF_MINUS_ONE % _P) if x * x % _P == square), None)
    # No such point, or x = 0: the neutral point and the point of order 2.
    if not x:
        return False
    point = (x if x & 1 == sign_of_x else _P - x, y)
    return _multiply(_ORDER, point) == (0, 1)


def _multiply(number: int, point: tuple[int, int]) -> tuple[int, int]:
    """A multiple of a point, by doubling and adding; (X, Y, Z) stands for x = X/Z, y = Y/Z."""
    total, doubled = (0, 1, 1), (*point, 1)
    while number:
        if number & 1:
            total = _add(total, doubled)
        doubled = _add(doubled, doubled)
        number >>= 1
    x, y, z = total
    inverse = pow(z, -1, _P)
    return x * inverse % _P, y * inverse % _P


def _add(point: tuple[int, int, int], addend: tuple[int, int, int]) -> tuple[int, int, int]:
    """The sum of two points (Bernstein, Birkner, Joye, Lange & Peters 2008, section 6)."""
    (x1, y1, z1), (x2, y2, z2) = point, addend
    a = z1 * z2 % _P
    b, c, d = a * a % _P, x1 * x2 % _P, y1 * y2 % _P
    e = _D * c * d % _P
    f, g = b - e, b + e
    x = a * f * ((x1 + y1) * (x2 + y2) - c - d) % _P
    return x, a * g * (d + c) % _P, f * g % _P
