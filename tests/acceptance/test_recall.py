"""The benchmark of recall, on a conversation that is made up: what it reads, counts and keeps. LoCoMo is not here."""

import json
from pathlib import Path

import pytest

from benchmarks.recall import __main__ as recall
from benchmarks.recall.dataset import FOLDER_VARIABLE, Question, conversations, pooled
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


def test_sessions_lie_apart_and_questions_without_evidence_are_left_out(folder: Path) -> None:
    [talk] = conversations(folder)
    first = talk.turns[0].place
    assert [turn.place - first for turn in talk.turns] == [0, 1, 2, 3 + REACH, 4 + REACH]
    assert [question.evidence for question in talk.questions] == [
        {first + 1},
        {first + 3 + REACH, first + 4 + REACH},
    ]


def test_conversations_in_one_index_keep_their_evidence_and_their_distance(folder: Path) -> None:
    [talk] = conversations(folder)
    both = pooled([talk, talk])
    second = both.turns[len(talk.turns) :]
    assert second[0].place - talk.turns[-1].place > REACH
    assert both.questions[2].evidence == {second[1].place}


def test_scores_are_what_the_textbook_says() -> None:
    tokens = dict.fromkeys(range(30), 100.0)
    question = Question("", "", frozenset({3, 20}))
    found = score(list(range(20)), question, tokens)
    assert (found.recall_5, found.recall_10, found.mrr_10) == (0.5, 0.5, 0.25)
    assert found.ndcg_10 == pytest.approx(0.4307 / (1 + 0.6309), abs=1e-3)
    assert (found.recall_500, found.recall_2000) == (0.5, 0.5)
    assert score([], question, tokens).recall_10 == 0
    assert mean([found, score([3, 20], question, tokens)]).recall_10 == 0.75


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
