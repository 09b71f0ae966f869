"""Bugs in what tools answer: what is found, shown, kept and told."""

from tests.mutations.bug import Bug, bug

_SEARCH = "goclaw/tools/search.py"
_PATTERNS = "goclaw/workspace/patterns.py"

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
]
