"""Models learned under differential privacy beside diffprivlib's, scored on rows held back.

Both learn from the same rows of the same splits with the same declared bounds, which are public,
and by what each does when nothing is chosen. A score is the share of classes that are right, of
k-means the adjusted Rand index, of a principal subspace the variance it keeps, of a regression R2.
`python -m bench.mining` measures all of it, the table of docs/benchmarks.md; `make bench` a part.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.metrics import adjusted_rand_score, r2_score

from bench._mining_sets import Sample, samples
from bench._peers import asked
from sfumato.vault.estimators import ESTIMATORS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

EPSILONS = (0.1, 1.0, 10.0)
REPEATS, FEW = 20, 5
COMPONENTS = 2
PEER = "diffprivlib 0.6.6"
LONGEST = 5_400
"""Seconds for all models of the peer."""
_CLASSES = (
    "breast cancer", "wine", "iris", "digits", "adult", "encounters", "bank", "income, national",
    "income, ma",
)  # fmt: skip
TASKS: dict[str, tuple[str, ...]] = {
    "logistic": _CLASSES,
    "naive-bayes": _CLASSES,
    "tree": _CLASSES,
    "forest": _CLASSES,
    "kmeans": ("iris", "wine", "breast cancer", "digits"),
    "pca": ("wine", "breast cancer", "iris", "digits"),
    "linear": ("diabetes", "census"),
}
SMALL = ("wine", "iris", "diabetes")
"""What `make bench` measures."""


@dataclass(frozen=True)
class Score:
    """The scores of several splits, as their mean and its standard error."""

    mean: float
    error: float

    @classmethod
    def of(cls, scores: Sequence[float]) -> Score:
        """The mean of scores; one split alone has no error."""
        spread = np.std(scores, ddof=1) if len(scores) > 1 else 0.0
        return cls(float(np.mean(scores)), float(spread / np.sqrt(len(scores))))

    def __str__(self) -> str:
        return "far below 0" if self.mean < -10 else f"{self.mean:.3f} ± {self.error:.3f}"


def rows() -> Iterator[dict[str, object]]:
    """The small sets, few splits: what is lost of a full score, ours and the peer's."""
    held = {one.name: one for one in samples() if one.name in SMALL}
    for task, name, epsilon, ours, theirs in compared(held, FEW):
        row = {"name": f"{task}, {name}, epsilon {epsilon:g}: lost", "value": 1 - ours.mean}
        beside = 1 - theirs.mean if isinstance(theirs, Score) else theirs
        yield {**row, "unit": "", "peer": PEER, "peer_value": beside, "wanted": "at least 1 x"}


def compared(
    held: dict[str, Sample], repeats: int, tasks: Sequence[str] = tuple(TASKS)
) -> Iterator[tuple[str, str, float, Score, Score | str]]:
    """Both sides' scores for every task, table and epsilon."""
    wanted = [(task, name) for task in tasks for name in TASKS[task] if name in held]
    theirs = peers(held, wanted, repeats)
    for task, name in wanted:
        for epsilon in EPSILONS:
            ours = Score.of([learned(task, held[name], epsilon, one) for one in range(repeats)])
            yield task, name, epsilon, ours, theirs[task, name, epsilon]


def peers(
    held: dict[str, Sample], wanted: Sequence[tuple[str, str]], repeats: int
) -> dict[tuple[str, str, float], Score | str]:
    """The peer's scores: of each thing it can be given, the better; or why there are none."""
    told: dict[str, Any] = {"epsilons": EPSILONS, "tasks": wanted, "tables": {}}
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home)
        for name in dict.fromkeys(name for _, name in wanted):
            one = held[name]
            splits = [one.splits(repeat) for repeat in range(repeats)]
            learn, test = (np.array(part) for part in zip(*splits, strict=True))
            file = folder / f"{name}.npz"
            np.savez(file, rows=one.scaled, target=one.target, learn=learn, test=test)
            told["tables"][name] = {
                "classes": [] if one.target_bounds else np.unique(one.target).tolist(),
                "components": COMPONENTS,
                "norm": float(np.sqrt(len(one.bounds))),
                "target_bounds": one.target_bounds,
            }
        (folder / "told.json").write_text(json.dumps(told))
        found: dict[str, Any] = asked("diffprivlib", folder, deadline=LONGEST)
    return {
        (task, name, epsilon): _best(found.get(f"{task}, {name}, {epsilon:g}"), found[""])
        for task, name in wanted
        for epsilon in EPSILONS
    }


def _best(forms: list[list[float | str]] | None, left: str) -> Score | str:
    """The best of what the peer was given; a split it fails on is worth nothing."""
    if forms is None:
        return left
    return max(
        (Score.of([0.0 if isinstance(score, str) else score for score in one]) for one in forms),
        key=lambda one: one.mean,
    )


def learned(task: str, sample: Sample, epsilon: float, repeat: int) -> float:
    """The score of ours on one split: everything is charged to a budget in memory."""
    learn, test = sample.splits(repeat)
    model = _estimator(task, sample, epsilon, len(learn))
    model.fit(sample.rows[learn], sample.target[learn])
    held, truth = sample.rows[test], sample.target[test]
    if task == "pca":
        return _kept(model.transform(held), sample.scaled[test])
    told = model.predict(held)
    if task == "kmeans":
        return float(adjusted_rand_score(truth, told))
    return float(r2_score(truth, told)) if task == "linear" else float(np.mean(truth == told))


def _estimator(task: str, sample: Sample, epsilon: float, rows: int) -> Any:
    """Ours for a task; how many rows there are is public on both sides."""
    declared = {"epsilon": epsilon, "bounds": list(sample.bounds.values()), "rows": rows}
    if task == "linear":
        return ESTIMATORS[task](**declared, target_bounds=sample.target_bounds)
    classes = np.unique(sample.target).tolist()
    if task == "kmeans":
        return ESTIMATORS[task](len(classes), **declared)
    if task == "pca":
        return ESTIMATORS[task](COMPONENTS, **declared)
    return ESTIMATORS[task](**declared, classes=classes)


def _kept(told: NDArray[np.float64], held: NDArray[np.float64]) -> float:
    """The share of the variance of rows that lies in the directions that were told of them."""
    about, centred = told - told.mean(axis=0), held - held.mean(axis=0)
    # What rows are told is linear in them: the least squares fit finds the directions again.
    directions = np.linalg.lstsq(centred, about, rcond=None)[0]
    basis = np.linalg.qr(directions)[0]
    return float(np.sum((centred @ basis) ** 2) / np.sum(centred**2))


def main(arguments: list[str]) -> None:
    """Print the whole table, row by row as it comes; tasks, tables and a number of splits."""
    named = set(arguments)
    held = {one.name: one for one in samples()}
    held = {name: one for name, one in held.items() if name in named} or held
    tasks = [task for task in TASKS if task in named] or list(TASKS)
    repeats = next((int(text) for text in arguments if text.isdigit()), REPEATS)
    print("| task | table | rows | epsilon | ours | diffprivlib 0.6.6 | |")
    print("|---|---|---|---|---|---|---|")
    for task, name, epsilon, ours, theirs in compared(held, repeats, tasks):
        ahead = _verdict(ours, theirs)
        cells = task, name, f"{len(held[name].rows):,}", f"{epsilon:g}", ours, theirs, ahead
        print("|", " | ".join(map(str, cells)), "|", flush=True)


def _verdict(ours: Score, theirs: Score | str) -> str:
    """Ahead or behind, or even where two standard errors of the difference hide which."""
    if isinstance(theirs, str):
        return ""
    apart = 2 * np.hypot(ours.error, theirs.error)
    if abs(ours.mean - theirs.mean) <= apart:
        return "even"
    return "ahead" if ours.mean > theirs.mean else "**behind**"


if __name__ == "__main__":
    main(sys.argv[1:])
