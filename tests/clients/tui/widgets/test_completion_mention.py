"""Where a file is being named in a message, and how its path is written."""

import pytest

from goclaw.clients.tui.widgets.completion import can_be_written, mention_before


@pytest.mark.parametrize(
    ("before", "written", "begun"),
    [
        ("@", "@", ""),
        ("look at @src/a", "@src/a", "src/a"),
        ("\t@x", "@x", "x"),
        ('look at @"my no', '@"my no', "my no"),
        ('@"', '@"', ""),
        ("@one @two", "@two", "two"),
        ("@ä.md", "@ä.md", "ä.md"),
    ],
)
def test_a_mention_begins_after_white_space_and_ends_at_the_cursor(before: str, written: str, begun: str) -> None:
    mention = mention_before(before)
    assert mention is not None
    assert (mention.written, mention.begun) == (written, begun)


@pytest.mark.parametrize("before", ["", "me@example.org", "@one ", '@"my notes" ', 'a"@b', '@"a"b', "@" + "x" * 300])
def test_everything_else_is_no_mention(before: str) -> None:
    assert mention_before(before) is None


@pytest.mark.parametrize(
    ("before", "path", "completed"),
    [
        ("@re", "README.md", "@README.md "),
        ("@my", "my notes.md", '@"my notes.md" '),
        ('@"re', "README.md", '@"README.md" '),
        ("@sr", "src/", "@src/"),
        ("@my", "my folder/", '@"my folder/'),
    ],
)
def test_a_path_is_quoted_where_it_must_be_and_a_folder_stays_open(before: str, path: str, completed: str) -> None:
    mention = mention_before(before)
    assert mention is not None
    assert mention.complete(path) == completed


def test_a_path_with_a_quotation_mark_cannot_be_told_from_its_end() -> None:
    assert can_be_written("my notes.md") and not can_be_written('my "notes".md')
