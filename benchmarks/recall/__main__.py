"""`python -m benchmarks.recall`: run every recipe on every conversation, print the tables, keep the figures."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from benchmarks.__main__ import keep, machine
from benchmarks.recall import vectors
from benchmarks.recall.dataset import FOLDER_VARIABLE, Conversation, conversations, given_folder, pooled
from benchmarks.recall.index import Index, embed, open_index, texts
from benchmarks.recall.recipes import RECIPES
from benchmarks.recall.scores import Scores, mean, score
from benchmarks.recall.vectors import PYTHON_VARIABLE, Vectors
from benchmarks.tables import RESULTS

TARGETS: Mapping[str, Mapping[str, float]] = {
    "GoClaw, full": {"recall_10": 80.0, "ndcg_10": 58.0, "recall_1000": 88.0},
    "GoClaw, keyword": {"recall_10": 75.0},
}
"""In percent, over all questions, each conversation in an index of its own."""

POOLED = "all in one index"

Figures = dict[str, Scores]
"""Means by what they are of: everything, a category, a conversation."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run as from the command line; returns 1 when a target was missed."""
    parser = argparse.ArgumentParser(prog="benchmarks.recall", description=__doc__)
    parser.add_argument("--data", type=Path, default=given_folder(), help=f"folder of LoCoMo; else {FOLDER_VARIABLE}")
    parser.add_argument("--python", default=vectors.given_python(), help=f"has the model; else {PYTHON_VARIABLE}")
    parser.add_argument("--keep", metavar="NAME", help="keep the figures as results/NAME-<date>.json")
    given = parser.parse_args(arguments)
    separate = conversations(given.data) if given.data else []
    if not separate:
        print(f"skipped: there is no LoCoMo here; {FOLDER_VARIABLE} or --data names its folder")
        return 0
    groups = [*separate, pooled(separate)]
    if not given.python:
        print(f"without vectors: {PYTHON_VARIABLE} or --python names a Python with sentence-transformers")
    with ExitStack() as stack:
        indexes = [stack.enter_context(open_index(group)) for group in groups]
        known: Vectors = {}
        if given.python:
            asked = [text for index, group in zip(indexes, groups, strict=True) for text in texts(index, group)]
            known = vectors.embedded(given.python, asked)
            for index, group in zip(indexes, groups, strict=True):
                embed(index, group, known)
        report = {
            name: measured(name, indexes[:-1], separate, known)
            | {POOLED: measured(name, indexes[-1:], groups[-1:], known)["all"]}
            for name, recipe in RECIPES.items()
            if given.python or not recipe.vectors
        }
    show(report, [group.name for group in separate])
    if given.keep:
        write(given.keep, report, separate)
    return 0 if reached(report) else 1


def measured(name: str, indexes: Sequence[Index], groups: Sequence[Conversation], known: Vectors) -> Figures:
    """One recipe over conversations."""
    parts: dict[str, list[Scores]] = {"all": []}
    for index, group in zip(indexes, groups, strict=True):
        for question in group.questions:
            answer = RECIPES[name].search(index, question, known.get(question.text, b""))
            scores = score(answer.rows, answer.shown, question)
            for part in ("all", question.category, group.name):
                parts.setdefault(part, []).append(scores)
    return {part: mean(scores) for part, scores in parts.items()}


def show(report: Mapping[str, Figures], names: Sequence[str]) -> None:
    """The tables."""
    head = ["R@5", "R@10", "nDCG@10", "MRR@10", "R 500 t", "R 1000 t", "R 2000 t"]
    print("  ".join([f"{'recipe':32}", *(f"{each:>8}" for each in head)]))
    for part in ("all", POOLED):
        for name, figures in report.items():
            row = figures[part].as_percent().values()
            print("  ".join([f"{name if part == 'all' else f'{name}, pooled':32}", *(f"{each:8.1f}" for each in row)]))
    kinds = sorted({part for figures in report.values() for part in figures} - {"all", POOLED, *names})
    print("\n" + "  ".join([f"{'R@10 of':32}", *(f"{each[:11]:>11}" for each in (*kinds, *names))]))
    for name, figures in report.items():
        print("  ".join([f"{name:32}", *(f"{100 * figures[part].recall_10:11.1f}" for part in (*kinds, *names))]))


def reached(report: Mapping[str, Figures]) -> bool:
    """Whether every target of a recipe that ran is met; says which is not."""
    missed = [
        f"{name}: {figure} is {measured:.1f} %, wanted {target:g} %"
        for name, targets in TARGETS.items()
        if name in report
        for figure, target in targets.items()
        if (measured := report[name]["all"].as_percent()[figure]) < target
    ]
    print("\n" + ("\n".join(missed) or "all targets reached"))
    return not missed


def write(name: str, report: Mapping[str, Figures], separate: Sequence[Conversation]) -> None:
    """Keep the figures: numbers alone, no text of the conversations."""
    begun = datetime.now(UTC)
    kept = {
        "begun": begun.isoformat(timespec="seconds"),
        **machine(),
        "turns": sum(len(group.turns) for group in separate),
        "questions": sum(len(group.questions) for group in separate),
        "targets": TARGETS,
        "recipes": {
            recipe: {part: scores.as_percent() for part, scores in figures.items()}
            for recipe, figures in report.items()
        },
    }
    path = RESULTS / f"{name}-{begun:%Y-%m-%d}.json"
    keep(path, kept)
    print(f"kept as {path.name}")


if __name__ == "__main__":
    sys.exit(main())
