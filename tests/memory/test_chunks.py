"""Markdown becomes passages with headings and lines."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goclaw.memory.chunks import (
    BYTES_PER_TOKEN,
    CHUNK_TOKENS,
    MAX_HEADING,
    OVERLAP_TOKENS,
    Chunk,
    chunk_markdown,
    chunk_messages,
)

LONG = 200_000


def test_a_passage_knows_its_lines_and_the_headings_above_it() -> None:
    text = "Intro.\n\n# Deploys\n\n## Rollback\n\nRun the script.\nThen wait.\n\n## Other\nYes.\n# End\nDone."
    assert chunk_markdown(text) == [
        Chunk(1, 1, "", "Intro."),
        Chunk(7, 8, "Deploys > Rollback", "Run the script.\nThen wait."),
        Chunk(11, 11, "Deploys > Other", "Yes."),
        Chunk(13, 13, "End", "Done."),
    ]


def test_a_heading_without_text_is_found_only_where_no_section_below_it_carries_it() -> None:
    assert chunk_markdown("# Deploys\n## Buy milk\n## Call Bert\n# End") == [
        Chunk(2, 2, "Deploys > Buy milk", "Buy milk"),
        Chunk(3, 3, "Deploys > Call Bert", "Call Bert"),
        Chunk(4, 4, "End", "End"),
    ]


def test_a_level_that_is_left_out_does_no_harm() -> None:
    assert [chunk.heading for chunk in chunk_markdown("### Deep\na\n# Top\nb\n#### Deeper\nc")] == [
        "Deep",
        "Top",
        "Top > Deeper",
    ]


@pytest.mark.parametrize("fence", ["```", "~~~", "````"])
def test_a_comment_in_fenced_code_is_no_heading(fence: str) -> None:
    text = f"# Setup\n{fence}sh\n# not a heading\nls\n{fence}\n# Next\nx"
    assert [chunk.heading for chunk in chunk_markdown(text)] == ["Setup", "Next"]


def test_code_within_a_line_opens_no_fence() -> None:
    assert [chunk.heading for chunk in chunk_markdown("```ls```\n# Next\nx")] == ["", "Next"]


@pytest.mark.parametrize("line", ["#tag", "####### seven", "    # indented code"])
def test_what_only_looks_like_a_heading_is_text(line: str) -> None:
    assert [chunk.heading for chunk in chunk_markdown(f"{line}\ntext")] == [""]


def test_closing_marks_and_windows_line_ends_are_not_part_of_a_heading() -> None:
    assert chunk_markdown("## Title ##\r\none\r\ntwo\r\n") == [Chunk(2, 3, "Title", "one\ntwo")]


@pytest.mark.parametrize("text", ["", "\n\n", "  \n\t\n", "#\n##\n"])
def test_blank_text_has_no_passages(text: str) -> None:
    assert chunk_markdown(text) == []


def test_long_text_is_cut_into_overlapping_passages_of_the_measured_size() -> None:
    lines = [f"Line {number} tells something about the garden." for number in range(1, 101)]
    chunks = chunk_markdown("\n".join(lines))
    assert len(chunks) > 4
    for chunk in chunks:
        assert len(chunk.text) <= CHUNK_TOKENS * BYTES_PER_TOKEN
        assert chunk.text == "\n".join(lines[chunk.start - 1 : chunk.end])
    for before, after in pairwise(chunks):
        shared = "\n".join(lines[after.start - 1 : before.end])
        assert 0 < len(shared) <= OVERLAP_TOKENS * BYTES_PER_TOKEN


def test_one_long_line_is_cut_between_words() -> None:
    words = [f"word{number}" for number in range(1_000)]
    chunks = chunk_markdown(" ".join(words))
    assert {(chunk.start, chunk.end) for chunk in chunks} == {(1, 1)}
    found = {word for chunk in chunks for word in chunk.text.split()}
    assert found == set(words)


def test_a_line_without_spaces_is_cut_all_the_same() -> None:
    chunks = chunk_markdown("認" * 2_000)
    assert max(len(chunk.text.encode()) for chunk in chunks) <= CHUNK_TOKENS * BYTES_PER_TOKEN
    assert sum(len(chunk.text) for chunk in chunks) >= 2_000


@given(st.text(st.sampled_from("ab #`~\n\r\t认😀"), max_size=300))
def test_no_word_of_any_text_is_lost(text: str) -> None:
    kept = " ".join(f"{chunk.heading} {chunk.text}" for chunk in chunk_markdown(text))
    for letter in "ab认😀":
        assert (letter in text) == (letter in kept)


def test_windows_over_messages_overlap_and_never_reach_over_a_missing_place() -> None:
    said = "word " * 30  # some forty tokens
    messages = [(place, f"Anna: {said}") for place in (*range(10, 22), *range(40, 43))]
    windows = [(window.start, window.end) for window in chunk_messages(messages)]
    assert windows[0][0] == 10 and windows[-1] == (40, 42)
    assert all(later[0] <= earlier[1] for earlier, later in pairwise(windows[:-1]))
    assert not any(first <= 21 < last for first, last in windows)


def test_a_window_over_short_messages_has_three_of_them_and_one_of_the_window_before() -> None:
    windows = chunk_messages((place, f"Ann: message {place}") for place in range(7))
    assert [(window.start, window.end) for window in windows] == [(0, 2), (2, 4), (4, 6)]


def test_a_long_message_has_several_windows_of_its_own() -> None:
    windows = chunk_messages([(7, "word " * 1_000)])
    assert len(windows) > 5 and {(window.start, window.end) for window in windows} == {(7, 7)}


def test_no_messages_have_no_windows() -> None:
    assert chunk_messages([]) == [] and chunk_messages([(1, " ")]) == []


@pytest.mark.parametrize("title", ["a" + " " * LONG + "b", "a" + " #" * LONG + "b", " " * LONG, "#" * LONG])
def test_a_line_that_is_hard_to_read_is_read_to_its_end(title: str) -> None:
    """With a regular expression that takes the square of its length, it would be read for hours."""
    assert chunk_markdown(f"# {title}\ntext")


def test_what_is_too_long_for_a_heading_is_text_and_is_not_repeated_below_it() -> None:
    chunks = chunk_markdown(f"# {'x ' * MAX_HEADING}\n" + "some line of a note\n" * 1_000)
    assert {chunk.heading for chunk in chunks} == {""} and "x x x" in chunks[0].text
    assert [chunk.heading for chunk in chunk_markdown(f"# {'x' * MAX_HEADING}\ntext")] == ["x" * MAX_HEADING]


@pytest.mark.parametrize(
    ("line", "title"),
    [("# a # b ##  ", "a # b"), ("# a#", "a#"), ("#\ta\t#", "a"), ("# C# ", "C#"), ("   ### a", "a"), ("# ##", "")],
)
def test_marks_that_close_a_heading_are_told_from_its_words(line: str, title: str) -> None:
    assert [chunk.heading for chunk in chunk_markdown(f"{line}\ntext")] == [title]
