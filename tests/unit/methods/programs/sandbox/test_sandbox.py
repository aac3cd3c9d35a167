"""A chamber that holds is given, or none."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pyarrow as pa
import pytest
from tests.unit.methods.programs.sandbox.conftest import provided, stream

from sfumato.errors import ParameterError, PolicyError
from sfumato.methods.programs import sandbox
from sfumato.methods.programs.sandbox import BlockLimits, Probe, Program, base, bubblewrap, runtime
from sfumato.methods.programs.sandbox.bubblewrap import Bubblewrap
from sfumato.methods.programs.sandbox.landlock import Landlock
from sfumato.server.problem_json import status_of


def failing(monkeypatch: pytest.MonkeyPatch, *classes: type) -> None:
    """Let the test of these find something."""
    for one in classes:
        monkeypatch.setattr(one, "probe", lambda _: Probe(passed=False, findings=("read_secret",)))


def test_the_first_that_holds_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in sandbox.PROVIDERS:
        provided(name)
    assert sandbox.chamber().name == "bubblewrap"
    failing(monkeypatch, Bubblewrap)
    assert sandbox.chamber().name == "landlock"


def test_a_choice_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    provided("landlock")
    assert sandbox.chamber("landlock").name == "landlock"
    monkeypatch.setenv(sandbox.VARIABLE, "landlock")
    assert sandbox.chamber().name == "landlock"
    failing(monkeypatch, Bubblewrap)
    with pytest.raises(PolicyError):
        sandbox.chamber("bubblewrap")


@pytest.mark.parametrize("choice", ["none", "bare", "Bubblewrap", "wasm"])
def test_no_choice_runs_bare(monkeypatch: pytest.MonkeyPatch, choice: str) -> None:
    monkeypatch.setenv(sandbox.VARIABLE, choice)
    with pytest.raises(ParameterError, match="Write bubblewrap or landlock") as caught:
        sandbox.chamber()
    assert caught.value.code == "choice_unknown"


def test_where_none_holds_nothing_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    failing(monkeypatch, Bubblewrap, Landlock)
    with pytest.raises(PolicyError, match="nothing was charged") as caught:
        sandbox.chamber()
    assert caught.value.code == "sandbox_unavailable"
    assert "read_secret" in (caught.value.detail or "")
    assert status_of(caught.value) == 503


def test_another_system_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(PolicyError) as caught:
        sandbox.chamber()
    assert "riscv64" in (caught.value.detail or "")


def test_without_bwrap_it_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "bwrap is not installed" in Bubblewrap().probe().findings[0]


def test_where_no_namespaces_may_be_made_it_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    real = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda _, **options: real(["false"], **options))
    assert "bwrap does not start" in Bubblewrap().probe().findings[0]


def test_a_probe_that_cannot_be_made_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: "/nowhere")
    monkeypatch.setattr("tempfile.tempdir", "/nowhere")
    assert "the probe failed" in Bubblewrap().probe().findings[0]


def test_packages_are_shown_where_others_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where programs' packages lie in Python's own folder of packages, the order decides."""
    library = Path("/python/lib/python3")
    numpy = library / "site-packages" / "numpy"
    found = runtime.find_runtime()._replace(
        paths=(library, numpy), hidden=(library / "site-packages",)
    )
    monkeypatch.setattr(runtime, "find_runtime", lambda: found)
    words = bubblewrap._seen()
    hidden, shown = words.index("--tmpfs"), words.index(str(numpy))
    assert words.index(str(library)) < hidden < shown < words.index("--remount-ro")


def test_an_old_kernel_s_landlock_is_not_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sfumato.methods.programs.sandbox.landlock.version", lambda: 3)
    assert "knows Landlock 3" in Landlock().probe().findings[0]


def test_how_long_a_job_may_take_is_known_before() -> None:
    limits = BlockLimits(seconds=2)
    each = 2 + base.OVERHEAD_SECONDS
    assert sandbox.longest_seconds(7, 2, limits) == base.SPARE_SECONDS + 4 * each


@pytest.mark.slow
@pytest.mark.parametrize("name", sandbox.PROVIDERS)
@pytest.mark.parametrize(("library", "most"), [("os", 0.080), ("numpy", 0.270)])
def test_a_block_starts_quickly(name: str, library: str, most: float) -> None:
    """Beside the start of the worker, the best of three times; the machine may be busy."""
    chamber = provided(name)
    block = b"" if library == "os" else stream(pa.table({"x": [1.0]}))
    program = Program(f"import {library}\ndef f(t):\n    return 1\n".encode(), "f")

    def seconds(blocks: int) -> float:
        begun = time.perf_counter()
        found = chamber.run(program, [block] * blocks, 1, BlockLimits(), 1, on_time=False)
        assert None not in found
        return time.perf_counter() - begun

    assert min((seconds(21) - seconds(1)) / 20 for _ in range(3)) < most
    assert min(seconds(1) for _ in range(3)) < 10 * most
