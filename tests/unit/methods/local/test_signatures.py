"""Signatures: the vectors of RFC 8032, and every change noticed."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.methods.local import ed25519_by_hand as by_hand

from sfumato.errors import SfumatoError
from sfumato.methods.local.signatures import _has_prime_order, public_key, sign, verify

# RFC 8032, section 7.1: tests 1, 2, 3 and SHA(abc): secret, public, message, signature.
VECTORS = [
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        (
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701"
            "cf9b46bd25bf5f0595bbe24655141438e7a100b"
        ),
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        (
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d"
            "0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
        ),
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        (
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f7609"
            "84dc6594a7c15e9716ed28dc027beceea1ec40a"
        ),
    ),
]


@pytest.mark.parametrize(("secret", "public", "message", "signature"), VECTORS)
def test_signatures_are_those_of_the_standard(
    secret: str, public: str, message: str, signature: str
) -> None:
    assert public_key(bytes.fromhex(secret)).hex() == public
    assert sign(bytes.fromhex(secret), bytes.fromhex(message)).hex() == signature
    assert verify(bytes.fromhex(public), bytes.fromhex(message), bytes.fromhex(signature))


@given(secret=st.binary(min_size=32, max_size=32), message=st.binary(max_size=200))
@settings(max_examples=25, deadline=None)
def test_keys_and_signatures_are_those_that_stored_rounds_have(
    secret: bytes, message: bytes
) -> None:
    """Rounds were signed in exact integers before; both ways give the same bytes."""
    key, signature = by_hand.public_key(secret), by_hand.sign(secret, message)
    assert public_key(secret) == key
    assert sign(secret, message) == signature
    assert verify(key, message, signature)


@given(key=st.binary(min_size=32, max_size=32))
@settings(max_examples=200, deadline=None)
def test_keys_of_prime_order_alone_are_keys(key: bytes) -> None:
    """One of 16 texts is a point of prime order; such a key is nobody's and signs nothing here."""
    assert _has_prime_order(key) == (by_hand._read_prime_order(key) is not None)


def test_a_missing_package_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.asymmetric", None)
    for call in (lambda: sign(SECRET, b""), lambda: verify(PUBLIC, b"", SIGNED)):
        with pytest.raises(SfumatoError, match=r"sfumato\[survey\]"):
            call()


SECRET = bytes(range(32))
PUBLIC = public_key(SECRET)
SIGNED = sign(SECRET, b"a round")


@given(bit=st.integers(0, 64 * 8 - 1))
@settings(max_examples=25, deadline=None)
def test_a_changed_signature_is_none(bit: int) -> None:
    changed = bytearray(SIGNED)
    changed[bit // 8] ^= 1 << bit % 8
    assert not verify(PUBLIC, b"a round", bytes(changed))


def test_another_message_another_key_and_no_signature_are_refused() -> None:
    assert verify(PUBLIC, b"a round", SIGNED)
    assert not verify(PUBLIC, b"a Round", SIGNED)
    assert not verify(public_key(bytes(32)), b"a round", SIGNED)
    assert not verify(PUBLIC, b"a round", b"")
    assert not verify(b"", b"a round", SIGNED)
    assert not verify(b"\xff" * 32, b"a round", SIGNED)
    # The same number modulo the order is another spelling, and no signature.
    order = 2**252 + 27742317777372353535851937790883648493
    raised = int.from_bytes(SIGNED[32:], "little") + order
    assert not verify(PUBLIC, b"a round", SIGNED[:32] + raised.to_bytes(32, "little"))


# The eight points whose order divides 8, then their second spellings (y + p, or -0 for x), as in
# the appendix of "Taming the many EdDSAs" (Chalkias, Garillot & Nikolaenko 2020).
SMALL_ORDER = [
    "0100000000000000000000000000000000000000000000000000000000000000",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "0000000000000000000000000000000000000000000000000000000000000000",
    "0000000000000000000000000000000000000000000000000000000000000080",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
    "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc85",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac03fa",
]
NON_CANONICAL = [
    "0100000000000000000000000000000000000000000000000000000000000080",
    "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "eeffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
    "edffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff",
]


@pytest.mark.parametrize("point", SMALL_ORDER + NON_CANONICAL)
def test_a_key_of_small_order_signs_nothing(point: str) -> None:
    """Under such a key, R = s B is a signature of one message in eight, or of all of them."""
    key = bytes.fromhex(point)
    commitment = public_key(SECRET)  # s B for the secret number s
    answer = by_hand._expanded(SECRET)[0] % by_hand._ORDER
    forged = commitment + answer.to_bytes(32, "little")
    assert not any(verify(key, bytes([at]), forged) for at in range(64))


@pytest.mark.parametrize("point", SMALL_ORDER + NON_CANONICAL)
def test_a_commitment_of_small_order_is_no_signature(point: str) -> None:
    """The holder of a key can make them; other implementations disagree about accepting them."""
    commitment = bytes.fromhex(point)
    number = by_hand._expanded(SECRET)[0]
    for at in range(64):
        answer = by_hand._hashed(commitment, PUBLIC, bytes([at])) * number % by_hand._ORDER
        assert not verify(PUBLIC, bytes([at]), commitment + answer.to_bytes(32, "little"))


@pytest.mark.parametrize("point", SMALL_ORDER[1:])
def test_a_key_with_a_part_of_small_order_signs_nothing(point: str) -> None:
    """Its holder can sign with it; whether others accept depends on how they check."""
    torsion = by_hand._read(bytes.fromhex(point))
    honest = by_hand._read(PUBLIC)
    assert torsion is not None
    assert honest is not None
    key = by_hand._written(by_hand._plus(honest, torsion))
    number = by_hand._expanded(SECRET)[0]
    for at in range(64):
        challenge = by_hand._hashed(SIGNED[:32], key, bytes([at]))
        once = by_hand._hashed(by_hand._expanded(SECRET)[1], b"a round")
        answer = (once + challenge * number) % by_hand._ORDER
        assert not verify(key, bytes([at]), SIGNED[:32] + answer.to_bytes(32, "little"))


def test_the_eight_points_are_all_of_small_order() -> None:
    points = [by_hand._read(bytes.fromhex(text)) for text in SMALL_ORDER]
    assert all(
        point is not None and by_hand._same(by_hand._times(8, point), by_hand._NEUTRAL)
        for point in points
    )
    assert len(set(SMALL_ORDER)) == 8
