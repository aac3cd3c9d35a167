"""Entropy: from the operating system, fresh in every process, never copied."""

from __future__ import annotations

import ast
import os
import pickle
import time
from pathlib import Path

import numpy as np
import pytest

from sfumato.privacy import noise
from sfumato.privacy.noise.entropy import BLOCK, SystemEntropy
from sfumato.privacy.noise.selection import permutation, uniform_below, uniform_integers
from sfumato.testing.entropy import SeededEntropy

SOURCE = Path(noise.__file__).parents[2]
SEEDABLE = {"random", "numpy.random", "mersenne", "secrets.SystemRandom"}


def test_words_are_never_repeated() -> None:
    entropy = SystemEntropy()
    assert len(set(entropy.words(10_000).tolist()) | set(entropy.words(10_000).tolist())) == 20_000


def test_F15_forked_workers_never_share_a_stream() -> None:
    entropy = SystemEntropy()
    entropy.words(3)
    pipes = []
    for _ in range(16):
        reading, writing = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.write(writing, entropy.words(100).tobytes())
            os._exit(0)
        os.close(writing)
        pipes.append((pid, reading))
    drawn = []
    for pid, reading in pipes:
        drawn.append(os.read(reading, 800))
        os.waitpid(pid, 0)
        os.close(reading)
    words = np.frombuffer(b"".join(drawn), dtype=np.uint64)
    assert len(words) == 1600
    assert len(set(words.tolist())) == 1600


def test_entropy_cannot_be_pickled() -> None:
    with pytest.raises(TypeError, match="cannot be copied"):
        pickle.dumps(SystemEntropy())


def test_seeded_entropy_repeats_itself() -> None:
    first, second = SeededEntropy(1), SeededEntropy(1)
    assert first.words(10).tolist() == second.words(10).tolist()
    assert first.words(10).tolist() != SeededEntropy(2).words(10).tolist()


def test_no_seedable_generator_is_reachable_from_production_code() -> None:
    found = []
    for path in SOURCE.rglob("*.py"):
        if "testing" in path.relative_to(SOURCE).parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Attribute) and node.attr in {"random", "default_rng", "seed"}:
                names = [ast.unparse(node).replace("np.", "numpy.")]
            found += [f"{path.name}: {name}" for name in names if _seedable(name)]
    assert found == []


def _seedable(name: str) -> bool:
    return any(name == one or name.startswith(one + ".") for one in SEEDABLE)


class Counting:
    """Entropy that remembers how many words were asked for."""

    def __init__(self) -> None:
        self.asked: list[int] = []
        self._source = SystemEntropy()

    def words(self, count: int) -> np.ndarray:
        self.asked.append(count)
        return self._source.words(count)


def test_F12_a_single_draw_is_made_in_a_block() -> None:
    from fractions import Fraction

    from sfumato.privacy.noise.discrete import discrete_laplace

    entropy = Counting()
    assert len(discrete_laplace(Fraction(5), 1, entropy)) == 1
    assert max(entropy.asked) >= BLOCK
    entropy = Counting()
    uniform_integers(6, 1, entropy)
    assert max(entropy.asked) >= BLOCK


def test_F12_the_time_of_a_release_does_not_tell_its_noise() -> None:
    """Rank correlation of time and size of the noise over 20,000 releases of one draw each.

    Without any dependence it has standard deviation 0.007; 0.05 is seven of them.
    """
    times, sizes = [], []
    for _ in range(20_000):
        started = time.perf_counter()
        drawn = noise.discrete_laplace(1000, 1)
        times.append(time.perf_counter() - started)
        sizes.append(abs(int(drawn[0])))
    ranks = [np.argsort(np.argsort(values)) for values in (times, sizes)]
    assert abs(np.corrcoef(ranks[0], ranks[1])[0, 1]) < 0.05


def test_uniform_integers_are_uniform_and_in_range() -> None:
    drawn = uniform_integers(6, 60_000, SeededEntropy(3))
    counts = np.bincount(drawn, minlength=6)
    assert counts.sum() == 60_000
    # Chi-square with 5 degrees of freedom: above 36 with probability below 1e-6.
    assert ((counts - 10_000) ** 2 / 10_000).sum() < 36


def test_uniform_limits_may_differ_and_reach_two_to_the_63() -> None:
    limits = np.array([1, 2, 3, 1 << 40, (1 << 63)], dtype=np.uint64)
    drawn = uniform_below(np.tile(limits, 1000), SeededEntropy(4)).reshape(1000, 5)
    assert (drawn >= 0).all()
    assert drawn[:, 0].max() == 0
    assert drawn[:, 2].max() == 2
    assert drawn[:, 4].max() > 1 << 62


def test_words_that_would_favour_small_remainders_are_drawn_again() -> None:
    class Top:
        """Gives the largest word first, then others."""

        def __init__(self) -> None:
            self.first = True

        def words(self, count: int) -> np.ndarray:
            value = (1 << 64) - 1 if self.first else 5
            self.first = False
            return np.full(count, value, dtype=np.uint64)

    assert uniform_below(np.array([3]), Top()).tolist() == [2]
    assert uniform_below(np.array([4]), Top()).tolist() == [3]


def test_permutations_are_uniform() -> None:
    orders = [tuple(permutation(3, SeededEntropy(seed)).tolist()) for seed in range(3_000)]
    counts = np.array([orders.count(order) for order in set(orders)])
    assert len(counts) == 6
    assert ((counts - 500) ** 2 / 500).sum() < 36
