"""What an attacker still learns: attacks on the table, its releases and a vault."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from sfumato.anonymize.criteria.request import CriteriaRequest
from sfumato.anonymize.pipeline import anonymize
from sfumato.attack.finding import Finding, percent
from sfumato.attack.options import AttackOptions
from sfumato.attack.page import attacks_picture
from sfumato.attack.runner import attack
from sfumato.demo.sections.anonymize import K
from sfumato.demo.town import schema_of
from sfumato.release.open_table import read
from sfumato.report.blocks import Heading, Note, Paragraph

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.demo.town import Town
    from sfumato.report.blocks import Block

_LISTED = 4_000
"""The number of voters who are looked up, evenly spread over the list."""
_TRIALS = 300
_EPSILONS = (Fraction(1), Fraction(4))
_SENSITIVE = ("disease", "salary")


def section(town: Town) -> list[Block]:
    """Show linking on three tables, what classes reveal, and what queries reveal."""
    boxes = _anonymize_by_box(town.people)
    return [
        Heading("What an attacker still learns"),
        Paragraph(
            "Here we attack the releases ourselves. How often is an attacker with the voter list "
            "right, and how often would a guess be right?"
        ),
        *_linking(town, boxes),
        *_homogeneity(boxes),
        *_differencing(town),
        Note(
            "An attack that fails proves no safety: it is one attacker with one kind of knowledge. "
            "Only differential privacy limits what any attacker can learn, also with attacks that "
            "nobody has thought of."
        ),
    ]


def _run_attack(name: str, release: pa.Table, **options: object) -> Finding:
    finding = attack(name, release, schema_of("town"), **options)  # type: ignore[arg-type]
    assert isinstance(finding, Finding)
    return finding


def _anonymize_by_box(people: pa.Table) -> pa.Table:
    """Anonymize the town, with labels chosen for each box of people."""
    with read(people, schema_of("town")) as opened:
        # "mondrian": labels by box keep most detail, which makes it the harder case to defend.
        criteria = CriteriaRequest(k=K).criteria(opened.schema, _SENSITIVE)
        return anonymize(opened, criteria, algorithm="mondrian", advice=False).release().table


def _linking(town: Town, boxes: pa.Table) -> list[Block]:
    # Every n-th voter: looking up all of them would take longer and show the same.
    step = max(town.voters.num_rows // _LISTED, 1)
    voters = town.voters.take(np.arange(0, town.voters.num_rows, step))
    released = {
        "Without names": town.people,
        f"{K}-anonymous": boxes,
        "Synthetic": town.synthetic,
    }
    findings = {
        name: _run_attack(
            "link", table, known=voters, original=town.people, synthetic=table is town.synthetic
        )
        for name, table in released.items()
    }
    raw, anonymous, synthetic = (percent(finding.success.value) for finding in findings.values())
    return [
        Heading("Looking people up", level=3),
        Paragraph(
            f"{raw} of the voters are found in the table without names, {anonymous} in the "
            f"{K}-anonymous table, and {synthetic} in the synthetic one. Synthetic rows belong to "
            "nobody, so they say no more about people in the data than about others."
        ),
        attacks_picture(
            [*findings.values()],
            label="Voters whose row is found, in three tables",
            names=[*findings],
        ),
    ]


def _homogeneity(boxes: pa.Table) -> list[Block]:
    findings = [
        _run_attack("homogeneity", boxes, options=AttackOptions(sensitive=name))
        for name in _SENSITIVE
    ]
    disease, salary = findings
    return [
        Heading("Learning a value without finding the row", level=3),
        Paragraph(
            "If all people who look alike share a value, an attacker knows it without finding the "
            f"row. In the {K}-anonymous table the disease of {disease.victims:,} people and the "
            f"salary of {salary.victims:,} are certain. l-diversity prevents this."
        ),
        attacks_picture(
            findings,
            label=f"People whose value is certain in the {K}-anonymous table",
            names=[name.capitalize() for name in _SENSITIVE],
        ),
    ]


def _differencing(town: Town) -> list[Block]:
    findings = [
        _run_attack(
            "differencing",
            town.people,
            options=AttackOptions(epsilon=epsilon, guesses=_TRIALS),
        )
        for epsilon in _EPSILONS
    ]
    last = findings[-1]
    return [
        Heading("Two queries about one person", level=3),
        Paragraph(
            "How many people are there, and how many without this person? The difference of two "
            "exact answers reveals the person. A vault adds noise to both. At epsilon "
            f"{_EPSILONS[-1]} no attacker can be right more often than "
            f"{percent(last.bound or 1.0)}, except by chance; here "
            f"{percent(last.success.value)} were right."
        ),
        attacks_picture(
            findings,
            label=f"Is the victim in the table? {_TRIALS} trials each, with two queries",
            names=[f"Epsilon {float(epsilon):g}" for epsilon in _EPSILONS],
        ),
    ]
