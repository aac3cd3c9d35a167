"""Texts that look the same have one skeleton; texts that do not have two."""

from __future__ import annotations

from itertools import combinations

import pytest

from sfumato.methods.local.rounds import skeleton

ALIKE = [
    ("yes", "yes"),
    ("a", "a"),
    ("yes", "YES"),
    ("yes", "\uff59\uff45\uff53"),  # wide letters
    ("ﬁne", "fine"),
    ("straße", "STRASSE"),
    ("caf\u00e9", "cafe\u0301"),
    ("no way", "no\u00a0\u2003way"),
    ("no", "n\u043e"),  # Cyrillic
    ("NO", "\u039d\u039f"),  # Greek
    ("\u0440\u0430\u0443", "pay"),
    ("O", "0"),
    ("\u2764", "\u2764\ufe0f"),
    ("yes", "yes\u3164"),
]


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_what_looks_the_same_is_the_same(one: str, other: str) -> None:
    assert skeleton(one) == skeleton(other)


def test_what_looks_different_is_not() -> None:
    words = [
        "yes",
        "no",
        "да",
        "нет",
        "ναι",
        "όχι",
        "c",
        "c++",
        "c#",
        "1",
        "2",
        "10",
        "über",
        "uber",
    ]
    words += ["はい", "いいえ", "-", "+", "😀", "😞", "не", "некогда", "İ", "I"]
    for one, other in combinations(words, 2):
        assert skeleton(one) != skeleton(other), (one, other)
