"""diffprivlib's models on the tables of a folder: one score for each split, task and epsilon.

Features come clamped and scaled by what is declared, so that bounds and norms are known. They are
tried from -1 to 1 and from 0 to 1, and trees alone and as a forest: the peer has the better.
"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from diffprivlib import models  # type: ignore[import-not-found]  # in its own environment
from sklearn.metrics import adjusted_rand_score, r2_score

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Rows = NDArray[np.float64]
    Scored = Callable[[Any, "Rows", "Rows", "Rows", "Rows"], float]

FOLDER = Path(sys.argv[1])
TOLD = json.loads((FOLDER / "told.json").read_text())


def made(task: str, epsilon: float, rows: Rows, told: dict[str, Any], low: float) -> list[Any]:
    """The peer's models for a task; rows have features from `low` to 1."""
    width, classes = rows.shape[1], told["classes"]
    bounds = np.full(width, low), np.ones(width)
    # From -1 to 1, the indicators of one text have one entry that is not 0.
    norm = told["norm"] if low else float(np.sqrt(width))
    if task == "logistic":
        return [models.LogisticRegression(epsilon=epsilon, data_norm=norm)]
    if task == "naive-bayes":
        return [models.GaussianNB(epsilon=epsilon, bounds=bounds)]
    if task == "kmeans":
        return [models.KMeans(len(classes), epsilon=epsilon, bounds=bounds)]
    if task == "pca":
        return [models.PCA(told["components"], epsilon=epsilon, bounds=bounds, data_norm=norm)]
    if task == "linear":
        wide = tuple(told["target_bounds"])
        return [models.LinearRegression(epsilon=epsilon, bounds_X=bounds, bounds_y=wide)]
    several = {"epsilon": epsilon, "bounds": bounds, "classes": classes}
    return [models.RandomForestClassifier(**several), models.DecisionTreeClassifier(**several)]


def scored(task: str, model: Any, told: tuple[Rows, Rows], held: tuple[Rows, Rows]) -> float:
    """How good a model is on rows that it has not seen."""
    model.fit(*told) if task not in {"kmeans", "pca"} else model.fit(told[0])
    if task == "pca":
        spread = np.cov(held[0].T)
        return float(np.trace(model.components_ @ spread @ model.components_.T) / np.trace(spread))
    guessed = model.predict(held[0])
    if task == "kmeans":
        return float(adjusted_rand_score(held[1], guessed))
    if task == "linear":
        return float(r2_score(held[1], guessed))
    return float(np.mean(guessed == held[1]))


def main() -> None:
    """One line for each task, table and epsilon."""
    warnings.filterwarnings("ignore")
    for task, name in TOLD["tasks"]:
        told, held = TOLD["tables"][name], np.load(FOLDER / f"{name}.npz")
        for epsilon in TOLD["epsilons"]:
            forms = []
            for low in (-1.0, 0.0):
                rows = held["rows"] if low else (held["rows"] + 1) / 2
                tried = range(len(made(task, epsilon, rows, told, low)))
                for one in tried:
                    scores = []
                    for learn, test in zip(held["learn"], held["test"], strict=True):
                        model = made(task, epsilon, rows, told, low)[one]
                        parts = [(rows[at], held["target"][at]) for at in (learn, test)]
                        try:
                            scores.append(scored(task, model, parts[0], parts[1]))
                        except Exception as error:  # noqa: BLE001  # whatever it raises
                            scores.append(f"failed: {type(error).__name__}")  # type: ignore[arg-type]
                    forms.append(scores)
            question = f"{task}, {name}, {epsilon:g}"
            print(json.dumps({"question": question, "found": forms}), flush=True)


if __name__ == "__main__":
    main()
