"""Who spent what: charges that stand, by whom, of which budget."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest

from sfumato.vault.accounts import by_principal, of_population, spending
from sfumato.vault.vault import create_vault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import sfumato as sf

COUNT = "SELECT COUNT(*) FROM visits"


@pytest.fixture
def clinic(files: Path) -> Iterator[sf.Vault]:
    with create_vault(files / "clinic") as made:
        made.add("visits", "visits.csv", "visits.toml", epsilon=3, delta="1e-6")
        yield made


def test_each_charge_is_told_once_with_who_made_it(clinic: sf.Vault) -> None:
    clinic.people.add("ann", "permanent-staff", epsilon=1, operator="me")
    clinic.query(COUNT, epsilon="0.25")
    clinic.query(COUNT, epsilon="0.25")  # from store, free
    clinic.query("SELECT SUM(cost) FROM visits", epsilon="0.5", principal="ann")
    found = spending(clinic.ledger)
    assert [(one.principal, one.cost) for one in found] == [
        ("owner", "epsilon 0.25"), ("ann", "epsilon 0.5"),
    ]  # fmt: skip
    assert found[1].accounts == ("visits", "visits/ann")
    assert found[0].time <= found[1].time
    ours = of_population(found, "visits")
    assert by_principal(ours) == {"ann": (1, Fraction(1, 2)), "owner": (1, Fraction(1, 4))}
    assert of_population(found, "others") == []


def test_a_rho_is_told_as_what_it_is_and_drawn_as_an_epsilon(clinic: sf.Vault) -> None:
    clinic.query(COUNT, rho="0.02")
    [one] = spending(clinic.ledger)
    assert one.cost.startswith("rho 0.02")
    assert abs(one.epsilon - Fraction(1, 5)) < Fraction(1, 10**6)
