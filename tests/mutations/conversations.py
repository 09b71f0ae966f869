"""Bugs in what a model is shown of a conversation, and in what people are told of it."""

from tests.mutations.bug import Bug, bug

BUGS: list[Bug] = [
    bug(
        "a summary for a large window locks the session of a small model",
        "class context: every request is refused, whatever is said",
        "goclaw/sessions/compacting.py",
        "            await self._fit_summary(session, context_window)\n",
        "            pass\n",
        "tests/sessions/test_compacting_summary_size.py::test_a_small_model_goes_on_where_a_large_one_left_a_long_summary",
    ),
    bug(
        "a summary is stored as long as a model writes it",
        "class context: a limit that is only asked for",
        "goclaw/context/compaction.py",
        "    if estimate_text(whole) <= tokens:\n        return whole\n    prose",
        "    if tokens:\n        return whole\n    prose",
        "tests/sessions/test_compacting_summary_size.py::test_a_summary_that_is_too_long_is_stored_cut_with_the_names_of_what_was_said",
    ),
]
