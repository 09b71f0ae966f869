"""Bugs in what is read out of a model's answer: calls in texts, arguments, thinking, marks, text without an end."""

from tests.mutations.bug import Bug, bug

_WRITTEN = "tests/turns/test_written_calls.py"

BUGS: list[Bug] = [
    bug(
        "a written call runs though a page dictated it",
        "class injection: a page has the model repeat a call",
        "goclaw/turns/written_calls.py",
        "        if why is None and await _is_dictated(",
        "        if False and await _is_dictated(",
        f"{_WRITTEN}::test_a_call_that_a_page_dictates_never_runs",
    ),
    bug(
        "a written call runs though the person asked to be shown it",
        "class text calls: an example that acts",
        "goclaw/turns/written_calls.py",
        "        if _was_asked(at, block):\n",
        "        if False:\n",
        f"{_WRITTEN}::test_a_person_who_asks_to_be_shown_a_call_is_shown_it",
    ),
    bug(
        "a written call runs at a model for which that is off",
        "class text calls: a setting that does nothing",
        "goclaw/turns/written_calls.py",
        '        if why is None and at.reading in ("on", "auto"):\n',
        "        if why is None:\n",
        f"{_WRITTEN}::test_off_means_off",
    ),
    bug(
        "thinking between tags is shown as the answer",
        "class thinking: a person reads what the model mumbles",
        "goclaw/llm/thinking_tags.py",
        "        if opening:\n",
        "        if False:\n",
        "tests/llm/test_thinking_tags.py::test_thinking_is_split_off_wherever_the_text_is_cut",
    ),
    bug(
        "marks of ours are shown in an answer",
        "class provenance: a small model writes false sources",
        "goclaw/turns/answer_text.py",
        '            if found.group() == "<" and (own := _OWN.match(self.text, place)):\n',
        '            if found.group() == "" and (own := _OWN.match(self.text, place)):\n',
        f"{_WRITTEN}::test_marks_of_ours_are_in_no_answer_and_in_no_context",
    ),
    bug(
        "a result stands in the answer with the marks of the model's template",
        "class provenance: a person reads marks of the wire",
        "goclaw/turns/answer_text.py",
        r"material|tool[\s_-]*response|context)",
        "material|context)",
        "tests/turns/test_answer_text.py::test_a_result_that_is_repeated_in_its_templates_marks_is_shown_without_them",
    ),
    bug(
        "a hint on the call itself is marked as material",
        "class provenance: a model leaves what GoClaw advises as if others had written it",
        "goclaw/toolkit/dispatcher.py",
        "            if isinstance(error, InvalidInput):\n",
        "            if False:\n",
        "tests/toolkit/test_dispatcher_steps.py::"
        "test_a_hint_on_the_call_itself_is_our_own_and_other_errors_are_material",
    ),
    bug(
        "an answer that repeats itself goes on without end",
        "class run-away text: a local model writes to its limit",
        "goclaw/llm/repetition.py",
        "        return repeats(pieces[0]) or counts_up(pieces[0])\n",
        "        return False\n",
        "tests/llm/test_repetition.py::test_the_watch_ends_an_answer_in_pieces",
    ),
    bug(
        "an argument of almost JSON with a name twice is read",
        "class arguments: one of two readings is guessed",
        "goclaw/llm/lenient_json.py",
        "    if len(found) < len(pairs):\n",
        "    if False:\n",
        "tests/llm/test_lenient_json.py::test_what_has_no_meaning_or_two_is_not_read",
        "tests/toolkit/test_argument_repair.py::test_what_has_no_reading_or_several_stays_and_is_refused",
    ),
    bug(
        "a list of texts as a JSON text is refused",
        "class arguments: a small model never gets a list across",
        "goclaw/toolkit/argument_repair.py",
        "    if get_origin(annotation) in (Annotated, Union, UnionType):\n",
        "    if True:\n",
        "tests/toolkit/test_argument_repair.py::test_what_is_wrong_in_form_only_is_put_right",
    ),
    bug(
        "two calls that share an index are one",
        "class arguments: parallel calls that are lost",
        "goclaw/llm/openai_answer.py",
        "        if index in self._calls and self._calls[index].is_followed_by(name, written):\n",
        "        if False:\n",
        "tests/llm/test_tool_calls_partial.py::test_calls_in_pieces_are_put_together",
    ),
    bug(
        "refusals of form end the turn before the schema was shown",
        "class limits: a small model is given no second look",
        "goclaw/agent/limits.py",
        "        if self._failures >= self.rules.failed_calls.most and not self._is_explained():\n",
        "        if self._failures >= self.rules.failed_calls.most:\n",
        "tests/turns/test_service_limits.py::test_calls_of_wrong_form_end_no_turn_before_the_schema_was_shown",
    ),
]
