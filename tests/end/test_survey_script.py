"""The script of the page draws what Python draws, from the same random words, report by report."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections import Counter
from dataclasses import asdict
from importlib.resources import files
from pathlib import Path

import pytest
from tests.end.survey_draws import draws

NODE = shutil.which("node")
needs_node = pytest.mark.skipif(NODE is None, reason="needs Node.js (apt-get install nodejs)")
TEMPLATES = Path(str(files("sfumato.report"))) / "templates"

PROGRAM = """
import { readFileSync } from "node:fs";
import { randomize } from %s;
const told = JSON.parse(readFileSync(0, "utf-8")).map(({ round, answer, words }) => {
  let used = 0;
  const source = (count) => words.slice(used, used += count).map(BigInt);
  return { report: randomize(round, answer, source), used };
});
console.log(JSON.stringify(told));
"""


def in_node(program: str, given: str) -> str:
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--input-type=module", "-e", program],
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_node
def test_node_and_python_draw_the_same_from_the_same_words() -> None:
    wanted = draws()
    program = PROGRAM % json.dumps((TEMPLATES / "mechanism.mjs").as_uri())
    told = json.loads(in_node(program, json.dumps([asdict(one) for one in wanted])))
    assert [one["report"] for one in told] == [one.report for one in wanted]
    assert [one["used"] for one in told] == [one.used for one in wanted]
    # The comparison has power: some words were drawn again, some reports are lies.
    assert max(one.used for one in wanted) > 1
    assert 0 < sum(one.report != one.answer for one in wanted) < len(wanted)


SAMPLES = """
import { randomize } from %s;
const round = { choices: ["a", "b", "c"], truth: "2", lie: "1" };
const counts = [0, 0, 0];
for (let at = 0; at < 40000; at += 1) counts[randomize(round, 1)] += 1;
console.log(JSON.stringify(counts));
"""


@needs_node
def test_with_words_of_the_system_the_chances_are_those_of_the_round() -> None:
    """Odds of 2 to 1 among three: 1/4, 1/2, 1/4. False alarms 1e-6."""
    program = SAMPLES % json.dumps((TEMPLATES / "mechanism.mjs").as_uri())
    counts = json.loads(in_node(program, ""))
    for count, chance in zip(counts, (0.25, 0.5, 0.25), strict=True):
        sd = (40000 * chance * (1 - chance)) ** 0.5
        assert abs(count - 40000 * chance) < 5.1 * sd


VERIFIED = """
import { createPublicKey, verify } from "node:crypto";
import { readFileSync } from "node:fs";
const { key, message, signature } = JSON.parse(readFileSync(0, "utf-8"));
const prefix = Buffer.from("302a300506032b6570032100", "hex");
const der = Buffer.concat([prefix, Buffer.from(key, "hex")]);
const pub = createPublicKey({ key: der, format: "der", type: "spki" });
const check = (text) => verify(null, Buffer.from(text, "hex"), pub, Buffer.from(signature, "hex"));
console.log(JSON.stringify([check(message), check(message + "00")]));
"""


@needs_node
def test_another_implementation_accepts_the_signature_of_a_round(tmp_path: Path) -> None:
    from sfumato.methods.local.rounds import new_round

    made = new_round(tmp_path / "r.toml", "Really?", ("yes", "no"), epsilon=1)
    facts = {"key": made.key, "message": made.message(), "signature": made.signature}
    given = json.dumps({name: value.hex() for name, value in facts.items()})
    assert json.loads(in_node(VERIFIED, given)) == [True, False]


def test_the_scripts_are_short_and_load_nothing_else() -> None:
    sources = {name: (TEMPLATES / name).read_text() for name in ("mechanism.mjs", "survey.mjs")}
    assert all(len(text.splitlines()) < 120 for text in sources.values())
    words = Counter(
        word
        for text in sources.values()
        for word in ("fetch(", "XMLHttpRequest", "sendBeacon", "WebSocket", "import ", "import(")
        for _ in range(text.count(word))
    )
    assert words == {"fetch(": 1, "import ": 1}
    assert "Math.random" not in "".join(sources.values())
