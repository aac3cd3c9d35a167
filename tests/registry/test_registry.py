"""Every registered method is run on neighbours; one without a generator of them is named here."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.registry.methods import METHODS, registered

from sfumato.methods.kinds import Kind
from sfumato.methods.publish.catalogue import KINDS

if TYPE_CHECKING:
    import pytest


def without_neighbours() -> set[tuple[str, str]]:
    """Registered methods that this suite cannot run."""
    return registered() - {(method.family, method.name) for method in METHODS}


def test_every_registered_method_has_neighbours() -> None:
    assert without_neighbours() == set()


def test_no_method_is_run_that_is_not_registered() -> None:
    assert {(method.family, method.name) for method in METHODS} <= registered()


def test_a_method_that_is_registered_without_neighbours_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(KINDS, "new", Kind("counts", "publish.histogram"))
    assert without_neighbours() == {("publish", "new")}


def test_every_way_to_ask_has_a_name_of_its_own() -> None:
    titles = [method.title for method in METHODS]
    assert sorted(titles) == sorted(set(titles))
