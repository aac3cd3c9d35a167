"""A comparison as a page: every figure in words, nothing unescaped, examples on no page."""

from __future__ import annotations

from dataclasses import replace

from sfumato.attack.comparison.page import page, picture, summary
from sfumato.attack.comparison.result import Candidate, Comparison
from sfumato.attack.comparison.utility import Utility
from sfumato.attack.finding import Finding, Findings, Rate

EVIL = "<script>x</script>"
LINK = Finding(
    attack="link",
    attacker="has a list",
    meaning="People found",
    success=Rate.share(120, 1000),
    baseline=Rate.share(10, 1000),
    reference="Sweeney 2002",
    examples=[{"name": "Ann Example"}],
)
SAFE = Candidate(
    name=EVIL,
    path="safe.csv",
    kind="rows",
    findings=Findings((LINK,), {"membership": "it needs others."}),
    guarantee="Every class satisfies 5-anonymity.",
    k=5,
    l=2,
    t=0.25,
    utility=Utility(0.75, 0.7, 0.8, 0.1, 0.3, 0.02, 45),
    figures={"loss": 0.375},
)
COUNTS = Candidate(
    name="counts",
    path="counts",
    kind="counts with noise",
    findings=Findings((), {"link": "the release has no rows."}),
    epsilon=1.0,
    delta=0.0,
    utility=Utility(0.9, 0.85, 0.95, 0.1, 0.1, 0.01, 45),
)
FOUND = Comparison((SAFE, COUNTS), 1000, ("age", "sex"), ("zip is not counted.",))


def test_the_page_says_for_whom_it_is_and_escapes_what_it_shows() -> None:
    made = page(FOUND)
    assert "For the owner only: computed from the original" in made
    assert "<script" not in made
    assert "Ann Example" not in made


def test_every_figure_stands_on_the_page() -> None:
    made = page(FOUND).replace("\u00a0", " ")
    for one in (
        "12.0 % (10.",
        "guess 1.00 %",
        "did not run",
        "75.0 %",
        "0.375",
        "0.25",
        "5-anonym",
    ):
        assert one in made
    assert "It needs others." in made
    assert "zip is not counted." in made


def test_a_layman_reads_sentences() -> None:
    told = summary(FOUND)
    assert told[0].startswith(
        "Best trade-offs (no other candidate is better in both privacy and utility): "
    )
    assert any(
        "the best attack (link) is right 11.1 % more often than a guess" in one for one in told
    )
    assert any(
        "its guarantee lets an attacker be right at most 46.2 % more often" in one for one in told
    )
    worse = replace(SAFE, name="worse", utility=replace(SAFE.utility, kept=0.5))  # type: ignore[type-var]
    told = summary(Comparison((SAFE, worse), 1000, ("age",)))
    assert (
        told[0]
        == f"{EVIL} is at least as good as every other candidate in both privacy and utility."
    )
    assert any(one.startswith("worse is not worth choosing") for one in told)


def test_the_picture_is_said_as_a_table_too() -> None:
    drawn = picture(FOUND)
    assert drawn is not None
    assert [row[0] for row in drawn.table.rows] == [EVIL, "counts"]
    assert "the point shows the most that the guarantee allows" in drawn.note
    nothing = replace(SAFE, findings=Findings((), {}))
    assert picture(Comparison((nothing,), 1000, ("age",))) is None
    assert "no attack could be run on it" in page(Comparison((nothing,), 1000, ("age",)))
