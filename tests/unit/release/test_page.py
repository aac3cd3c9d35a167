"""The page about a release: for an officer who signs it, and a layman who reads it."""

from __future__ import annotations

import re
from html import unescape

import pyarrow as pa

from sfumato.release.page import page
from sfumato.release.release import Guarantee, Provenance, Release

HASH = "ab" * 32
PROMISED = {
    "counted": "rows",
    "criteria": ["4-anonymity"],
    "k": 4,
    "released": 20,
    "classes": 3,
    "unprotected": ["note"],
    "compared_with_original": [],
    "notes": [],
    "table": "people",
    "columns": {"name": "removed (identifier)", "zip": "first two digits"},
    "risk": {"highest": 0.25, "average": 0.15, "at_risk": 0.2},
    "promises": ["Whoever looks for a person finds at least 3 others."],
    "limits": ["What all of them share is not hidden."],
}
KEPT = {
    "figures": {"rows": 24, "suppressed": 4, "lattice": None},
    "reference": {},
    "findings": ["In 1 of 3 classes everyone has the same disease."],
    "remarks": [],
    "risk": {"highest": 1.0, "average": 0.9, "at_risk": 1.0},
    "advice": [{"words": "mondrian would lose 0.1 instead of 0.3: --algorithm mondrian"}],
}


def release() -> Release:
    rows = pa.table({"zip": [f"5{number}***" for number in range(12)], "income": [1234] * 12})
    asked = {"cost": "loss", "suppress": "0.02", "suppressed": "drop", "weights": None,
             "refine": False, "limit_seconds": None}  # fmt: skip
    return Release(
        {"people": rows},
        Guarantee("syntactic", "Every class satisfies 4-anonymity.", PROMISED),
        Provenance("optimal", asked, HASH, made="2026-11-16", by="A. Keeper"),
        {"loss": 0.3, "ncp": {"zip": 0.5}, "before": {"loss": 0.0}},
        holder=KEPT,
    )


def text_of(html: str) -> str:
    """What a reader sees: every cell and paragraph on a line of its own."""
    shown = re.sub(r"<(style|svg).*?</\1>", "", html, flags=re.DOTALL)
    lines = unescape(re.sub(r"<(?!/?(wbr|a|abbr))[^>]*>", "\n", shown)).splitlines()
    return "\n".join(line for line in map(str.strip, lines) if line)


def test_name_date_and_who_stand_on_its_face() -> None:
    text = text_of(page(release()))
    assert "Release report for the holder: people" in text
    assert "date\n2026-11-16" in text
    assert "made by\nA. Keeper" in text


def test_it_says_what_is_guaranteed_what_is_not_and_what_became_of_columns() -> None:
    for told in (page(release()), page(release().public)):
        text = text_of(told)
        assert "Whoever looks for a person finds at least 3 others." in text
        assert "What it does not protect against" in text
        assert "What all of them share is not hidden." in text
        assert "not protected by any criterion: note" in text
        assert "zip\nfirst two digits" in text


def test_the_risk_of_the_original_is_for_its_holder() -> None:
    mine, public = text_of(page(release())), text_of(page(release().public))
    assert "easiest to find\n100\xa0%\n25.0\xa0%" in mine
    assert "easiest to find\n25.0\xa0%" in public
    assert "100\xa0%" not in public


def test_what_tells_of_the_original_is_not_on_the_public_page() -> None:
    public = text_of(page(release().public))
    for kept in ("everyone has the same", "would lose", "suppressed\n4", "24", "Checked by"):
        assert kept not in public
    mine = text_of(page(release()))
    assert "mondrian would lose 0.1 instead of 0.3" in mine
    assert "Checked by\nDate\nSignature" in mine


def test_it_shows_ten_rows_as_they_are_written() -> None:
    text = text_of(page(release().public))
    assert "The first 10 rows of people" in text
    assert "59***\n1234" in text
    assert "510***" not in text


def test_nothing_is_empty_and_no_marks_for_programs_are_in_it() -> None:
    mine = text_of(page(release()))
    assert HASH not in mine
    assert not re.search(r"[0-9a-f]{32}", mine)
    for empty in ("fingerprint", "weights", "limit seconds", "compared with original", "refine"):
        assert empty not in mine
    assert "most rows that may be suppressed\n2.0\xa0%" in mine


def test_words_of_the_field_are_explained_on_the_spot() -> None:
    told = page(release())
    assert '<details class="terms"><summary>What the words mean</summary>' in told
    assert "k-anonymity: each row has the same quasi-identifiers" in text_of(told)


def test_a_private_release_is_told_in_odds_and_decimals() -> None:
    facts = {"epsilon": "1/2", "unit": "Hides whether any one row is present."}
    asked = {"columns": ["age"], "cost": {"epsilon": "1/2"}, "domain": HASH, "postprocess": []}
    counts = pa.table({"age": [1, 2], "count": [3, 4]})
    made = Release(
        {"histogram": counts},
        Guarantee(
            "differential privacy", "epsilon 1/2. Hides whether any one row is present.", facts
        ),
        Provenance("publish histogram", asked, "", made="2026-11-16"),
        {"cell": {"sd": 2.8, "bound95": 6.0}},
    )
    text = text_of(page(made))
    assert "Histogram of age" in text
    assert "at most 1.65 times as likely" in text
    assert "does not hide what is true of many people" in text
    assert "1/2" not in text
    assert "epsilon 0.5" in text
    assert HASH not in text
    assert "postprocess" not in text


def test_an_old_release_without_these_words_still_has_a_page() -> None:
    old = Guarantee(
        "syntactic", "Every class satisfies 4-anonymity.", {"criteria": ["4-anonymity"]}
    )
    text = text_of(page(Release({}, old, Provenance("optimal", {}, ""))))
    assert "Criteria: 4-anonymity." in text


def test_names_of_the_user_are_shown_as_they_are() -> None:
    named = ["cost", "1/2", "sd", "suppress", "version", "unit", "drop"]
    asked = {
        "columns": named,
        "cost": {"epsilon": "1/2"},
        "method": {"marginals": ["zip_code,1/2"], "shares": {"sd,cost": "1/4"}},
    }
    made = Release(
        {"1/2": pa.table({"count": [3]})},
        Guarantee("differential privacy", "epsilon 0.5.", {"epsilon": "1/2", "table": "1/2"}),
        Provenance("publish marginals", asked, ""),
        {"tables": {"sd,1/2": {"sd": 2.8}}, "quantiles": {"1/4": {"rank_bound95": 2.0}}},
    )
    text = text_of(page(made))
    assert f"columns\n{'; '.join(named)}\n" in text
    assert "name\n1/2\n" in text
    assert "marginals zip_code,1/2, shares sd,cost 0.25" in text
    assert "tables\nsd,1/2 standard deviation 2.8" in text
    assert "quantiles\n0.25 95\xa0% bound of the rank 2" in text


def test_figures_of_a_question_have_the_names_it_gave_them() -> None:
    made = Release(
        {"answer": pa.table({"cost": [3], "bias_sd": [4]})},
        Guarantee("differential privacy", "epsilon 0.5.", {"epsilon": "1/2"}),
        Provenance("query", {"sql": "SELECT"}, ""),
        {"cost": {"sd": 2.8}, "bias_sd": {"sd": 1.0}},
    )
    text = text_of(page(made))
    assert "cost\nstandard deviation 2.8" in text
    assert "bias_sd\nstandard deviation 1" in text
