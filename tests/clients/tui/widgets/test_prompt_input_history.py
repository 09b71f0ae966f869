"""What was typed before, across runs."""

from pathlib import Path

from goclaw.clients.tui.widgets.prompt import HISTORY_FILE, HISTORY_KEPT, InputHistory


def typed(path: Path, *texts: str) -> InputHistory:
    recall = InputHistory(path)
    recall.load()
    for text in texts:
        if recall.add(text):
            recall.save(text)
    return recall


def test_older_and_newer_walk_through_what_was_typed_and_end_at_the_draft(tmp_path: Path) -> None:
    recall = typed(tmp_path / HISTORY_FILE, "one", "two\nlines")
    assert [recall.older("draft"), recall.older("x"), recall.older("x")] == ["two\nlines", "one", None]
    assert [recall.newer(), recall.newer(), recall.newer()] == ["two\nlines", "draft", None]


def test_the_next_run_knows_it(tmp_path: Path) -> None:
    typed(tmp_path / HISTORY_FILE, "one", "two\nlines")
    recall = typed(tmp_path / HISTORY_FILE)
    assert [recall.older(""), recall.older("")] == ["two\nlines", "one"]


def test_blank_and_repeated_texts_are_not_kept(tmp_path: Path) -> None:
    recall = typed(tmp_path / HISTORY_FILE, "one", "one", "  ")
    assert [recall.older(""), recall.older("")] == ["one", None]


def test_a_file_that_somebody_spoiled_is_read_as_far_as_it_can_be(tmp_path: Path) -> None:
    (tmp_path / HISTORY_FILE).write_bytes(b'"good"\n{"no": "text"}\n"cut')
    recall = typed(tmp_path / HISTORY_FILE)
    assert [recall.older(""), recall.older("")] == ["good", None]


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    path = tmp_path / HISTORY_FILE
    path.write_text("".join(f'"{number}"\n' for number in range(2 * HISTORY_KEPT + 1)))
    recall = typed(path)
    assert recall.older("") == str(2 * HISTORY_KEPT)
    assert len(path.read_text().splitlines()) == HISTORY_KEPT


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    recall = typed(tmp_path / "missing" / HISTORY_FILE, "one")
    assert recall.older("") == "one"
