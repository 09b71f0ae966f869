"""The benchmark of recall, on a conversation that is made up: what it reads, counts and keeps. LoCoMo is not here."""

import json
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from benchmarks.recall import __main__ as recall
from benchmarks.recall.dataset import FOLDER_VARIABLE, Question, conversations, pooled
from benchmarks.recall.index import embed, open_index, texts
from benchmarks.recall.recipes import RECIPES
from benchmarks.recall.scores import mean, score
from benchmarks.recall.vectors import PYTHON_VARIABLE
from goclaw.memory.ranking import REACH

SAID = [
    (1, "Anna", "Which instrument does your daughter play?"),
    (1, "Bert", "She took up the cello when she was six"),
    (1, "Anna", "Mine would rather climb trees all day long"),
    (2, "Bert", "The passport came by post this morning"),
    (2, "Anna", "Then only the visa is missing before we fly to Kenya"),
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    turns = [
        {"id": f"D{number}", "s": session, "t": f"2026-03-0{session}T10:0{number}", "sp": speaker, "x": text}
        for number, (session, speaker, text) in enumerate(SAID)
    ]
    queries = [
        {"c": "single", "q": "Which instrument does Bert's daughter play?", "rel": ["D1"]},
        {"c": "multi", "q": "What was missing for Kenya?", "rel": ["D3", "D4"]},
        {"c": "open", "q": "Unanswerable?", "rel": []},
    ]
    for kind, rows in (("turns", turns), ("queries", queries)):
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / f"talk.{kind}.jsonl").write_text(text, "utf-8")
    monkeypatch.setenv(FOLDER_VARIABLE, str(tmp_path))
    monkeypatch.delenv(PYTHON_VARIABLE, raising=False)
    return tmp_path


def test_rows_are_numbered_and_questions_without_evidence_are_left_out(folder: Path) -> None:
    [talk] = conversations(folder)
    assert [turn.row for turn in talk.turns] == [1, 2, 3, 4, 5]
    assert [question.evidence for question in talk.questions] == [{2}, {4, 5}]


def test_conversations_in_one_index_keep_their_evidence(folder: Path) -> None:
    [talk] = conversations(folder)
    both = pooled([talk, talk])
    assert [turn.row for turn in both.turns] == list(range(1, 11))
    assert [question.evidence for question in both.questions] == [{2}, {4, 5}, {7}, {9, 10}]


def test_the_index_has_each_message_and_no_neighbours_across_a_pause(folder: Path) -> None:
    [talk] = conversations(folder)
    with open_index(talk) as index:
        assert list(index.rows.values()) == [1, 2, 3, 4, 5] and index.scope.passages == 5
        places = list(index.rows)
        assert [later - earlier for earlier, later in pairwise(places)] == [1, 1, 1 + REACH, 1]


def test_scores_are_what_the_textbook_says() -> None:
    question = Question("", "", frozenset({3, 20}))
    found = score(list(range(20)), {500: {3}, 1_000: {4}, 2_000: {3, 20}}, question)
    assert (found.recall_5, found.recall_10, found.mrr_10) == (0.5, 0.5, 0.25)
    assert found.ndcg_10 == pytest.approx(0.4307 / (1 + 0.6309), abs=1e-3)
    assert (found.recall_500, found.recall_1000, found.recall_2000) == (0.5, 0.0, 1.0)
    nothing = {500: (), 1_000: (), 2_000: ()}
    assert score([], nothing, question).recall_10 == 0
    assert mean([found, score([3, 20], nothing, question)]).recall_10 == 0.75


def test_vectors_reach_the_recipes_that_need_them(folder: Path) -> None:
    """Made-up ones: each text is near to itself alone."""
    [talk] = conversations(folder)
    with open_index(talk) as index:
        known = {text: bytes(Random(text).choices(range(256), k=384)) for text in texts(index, talk)}
        embed(index, talk, known)
        assert len(index.messages) == 5 and len(index.windows) == 2
        asked = known[talk.turns[2].line]
        for name in ("vectors alone", "original (0.7/0.3, AND, floor)"):
            assert RECIPES[name].search(index, talk.questions[0], asked).rows[0] == 3
        [(_, _, best), *_] = index.windows.nearest(known[texts(index, talk)[5]], index.scope, 9)
        assert best == pytest.approx(1)
        assert 2 in RECIPES["GoClaw, full"].search(index, talk.questions[0], asked).shown[500]


def test_a_run_without_an_embedder_finds_by_words_and_keeps_figures_only(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recall, "RESULTS", folder)
    monkeypatch.setattr(recall, "machine", dict)
    assert recall.main(["--keep", "recall"]) == 0
    said = capsys.readouterr().out
    assert "without vectors" in said and "GoClaw, keyword" in said and "GoClaw, full" not in said
    [path] = folder.glob("recall-*.json")
    kept = json.loads(path.read_text("utf-8"))
    assert kept["recipes"]["GoClaw, keyword"]["all"]["recall_10"] == 100.0
    assert kept["turns"] == 5 and kept["questions"] == 2
    assert not any(text in path.read_text("utf-8") for _, _, text in SAID)


def test_a_missed_target_is_named_and_fails_the_run(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(recall, "TARGETS", {"GoClaw, keyword": {"recall_5": 101.0}})
    assert recall.main([]) == 1
    assert "GoClaw, keyword: recall_5 is 100.0 %, wanted 101 %" in capsys.readouterr().out


def test_without_the_data_the_run_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(FOLDER_VARIABLE, raising=False)
    assert recall.main([]) == 0
    assert "skipped" in capsys.readouterr().out
