"""Bugs in what tools answer: what is found, shown, kept and told."""

from tests.mutations.bug import Bug, bug

_SEARCH = "goclaw/tools/search.py"
_PATTERNS = "goclaw/workspace/patterns.py"
_TEXT = "goclaw/tools/text.py"

BUGS: list[Bug] = [
    bug(
        "a search shows ten lines of a file however many are wanted",
        "class tools: a bound that an argument names and does not move",
        _SEARCH,
        "_MOST_OF_A_FILE + spare)], self._context)",
        "_MOST_OF_A_FILE)], self._context)",
        "tests/tools/test_search.py::test_ten_lines_of_a_file_are_shown_where_others_need_the_room",
    ),
    bug(
        "the first file of a search takes the room of all others",
        "class tools: one hit hides the rest",
        _SEARCH,
        "spare = max(0, left - sum(min(hits.counts[path], _MOST_OF_A_FILE) for path in order))",
        "spare = left",
        "tests/tools/test_search.py::test_ten_lines_of_a_file_are_shown_where_others_need_the_room",
    ),
    bug(
        "a bracket that is never closed is a letter of the glob",
        "class tools: a slip that finds nothing in silence",
        _PATTERNS,
        '        if "[" in _CLASS.sub("", part):',
        "        if False:",
        "tests/tools/test_glob.py::test_wrong_arguments_are_named",
        "tests/tools/test_search.py::test_wrong_arguments_are_named",
    ),
    bug(
        "a bracket at the beginning of a class closes it",
        "class tools: a glob that is right is refused",
        _PATTERNS,
        r'r"\[[!^]?+\]?+[^\]]*\]"',
        r'r"\[[!^]?+[^\]]*\]"',
        "tests/tools/test_glob.py::test_wrong_arguments_are_named",
        "tests/tools/test_glob.py::test_brackets_stand_for_one_of_several_characters",
    ),
    bug(
        "more bytes than are ever read are cut without a word",
        "class tools: a bound that nobody is told",
        "goclaw/tools/read.py",
        "    if max_bytes is None or max_bytes <= most:",
        "    if True:",
        "tests/tools/test_read.py::test_more_bytes_than_are_ever_shown_name_the_most",
    ),
    bug(
        "the end of a long output begins in the middle of a line",
        "class tools: half a number passes for a whole one",
        _TEXT,
        '    return text[start:].partition("\\n")[2] or text[start:]',
        "    return text[start:]",
        "tests/tools/test_exec.py::test_a_long_output_shows_its_tail_and_is_kept_whole",
        "tests/tools/test_background.py::test_a_long_output_shows_its_tail_and_is_kept_whole",
    ),
    bug(
        "of a long output that is one line nothing is shown",
        "class tools: a rule that leaves nothing",
        _TEXT,
        '    return text[start:].partition("\\n")[2] or text[start:]',
        '    return text[start:].partition("\\n")[2]',
        "tests/tools/test_exec.py::test_of_a_long_output_without_line_ends_the_last_characters_are_shown",
    ),
    bug(
        "a kept output that is no text is offered to read",
        "class tools: a hint that leads to an error",
        "goclaw/blobs.py",
        "        if self.is_binary:\n",
        "        if False:\n",
        "tests/tools/test_exec.py::test_a_long_output_that_is_no_text_is_not_offered_to_read",
        "tests/toolkit/test_dispatcher.py::test_a_long_result_that_is_no_text_is_not_offered_to_read",
    ),
    bug(
        "Latin-1 is read as UTF-8 with holes",
        "class tools: letters vanish",
        "goclaw/tools/lines.py",
        "if is_latin(raw) else",
        "if False else",
        "tests/tools/test_read.py::test_latin_1_is_read_and_named",
    ),
    bug(
        "UTF-8 with a broken byte passes for Latin-1",
        "class tools: letters become others",
        _TEXT,
        "    if _CHARACTER.search(data, 0, _JUDGED):",
        "    if False:",
        "tests/tools/test_read.py::test_latin_1_is_read_and_named",
    ),
    bug(
        "an edit turns a Latin-1 file into one of two encodings",
        "class files: bytes that nobody can read any more",
        _TEXT,
        "return Text(data.decode(LATIN), mark, version, LATIN)",
        "return Text(data.decode(LATIN), mark, version)",
        "tests/tools/test_edit.py::test_latin_1_is_edited_as_it_was_read_and_stays_latin_1",
    ),
]
