"""Bugs in what is heard and shown in Telegram."""

from tests.mutations.bug import Bug, bug

_WORDING = "goclaw/sessions/wording.py"

BUGS: list[Bug] = [
    bug(
        "a number chooses an option beside which it does not stand",
        "class questions: 1 approves a plan whose first step is 1",
        _WORDING,
        "return question.is_numbered and (channel == LOCAL or not buttons(question))",
        "return True",
        "tests/sessions/test_wording.py::test_what_is_typed_means_what_stands_there",
    ),
    bug(
        "options are a list of Markdown, which goes on counting",
        "class questions: 1. and 2. are shown as 3. and 4.",
        _WORDING,
        'f"({number}) {option}" if numbered',
        'f"{number}. {option}" if numbered',
        "tests/sessions/test_wording.py::"
        "test_in_a_chat_each_number_stands_beside_one_option_whatever_markdown_comes_before",
    ),
]
