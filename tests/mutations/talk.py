"""Bugs in what people are told while and when a turn ends."""

from tests.mutations.bug import Bug, bug

_TURN = "goclaw/sessions/turn.py"
_INTERIM = "tests/sessions/test_interim.py"
_LIVE = "tests/channels/telegram/test_live_interim.py"

BUGS: list[Bug] = [
    bug(
        "what is said before a tool call is dropped",
        "the answer of a model that then calls a tool was lost",
        _TURN,
        "        if self._ports.interim is None or message.deferred or not message.is_interim:",
        "        if True:",
        f"{_INTERIM}::test_an_answer_before_a_tool_call_is_a_message_of_its_own",
    ),
    bug(
        "what is said before a tool call is promised after its step",
        "kill -9 between the step and the delivery",
        _TURN,
        "            promise = [self._ports.interim.row(said)] if said and self._ports.interim else []",
        "            promise: list[Bound] = []",
        f"{_INTERIM}::test_a_kill_at_any_moment_loses_no_text_and_doubles_none",
    ),
    bug(
        "a text that waits for the next one is forgotten by a restart",
        "kill -9 with `telegram.interim: joined`",
        _TURN,
        "self._ports.interim.recalled(self._turn.id, number, text, waits=message.deferred)",
        "self._ports.interim.recalled(self._turn.id, number, text, waits=not replayed)",
        f"{_INTERIM}::test_texts_that_wait_for_the_answer_survive_a_kill",
    ),
    bug(
        "what leads to a question comes after its answer",
        "seen with `telegram.interim: joined`: options without the list that explains them",
        "goclaw/sessions/interim.py",
        " or any(call.name in ASKING for call in calls)",
        "",
        f"{_INTERIM}::test_what_leads_to_a_question_is_in_the_chat_before_it",
    ),
    bug(
        "a chat gets any number of texts before tool calls",
        "a model that comments on fifty calls floods a chat",
        "goclaw/sessions/interim.py",
        "        if len(times) == MOST and times[0] > now - SECONDS:",
        "        if False:",
        f"{_INTERIM}::test_a_chat_gets_so_many_of_them_a_minute_and_the_rest_together",
    ),
    bug(
        "the hook for what goes out does not see what is said before a tool call",
        "a text that should be held back reaches the person",
        "goclaw/sessions/hooking.py",
        "        if message.calls and not message.text.strip():",
        "        if message.calls:",
        f"{_INTERIM}::test_the_hook_for_what_goes_out_judges_each_of_them",
    ),
    bug(
        "the answer is written over what was said before a tool call",
        "in groups the text that was shown is overwritten",
        "goclaw/channels/telegram/live.py",
        "            known = await self._grown.hand_over(delivery.turn, delivery.id)",
        "            known = self._grown.message_of(delivery.turn)",
        f"{_LIVE}::test_after_a_restart_the_answer_is_not_written_over_the_text",
    ),
    bug(
        "a text that is tried again takes the view of the next one",
        "in groups a text that was shown gave way to a tool's line",
        "goclaw/channels/telegram/live.py",
        "        if delivery.interim and (known or delivery.id in self._claimed):",
        "        if False:",
        f"{_LIVE}::test_a_text_that_is_tried_again_leaves_the_view_of_the_rest_alone",
    ),
    bug(
        "what comes behind a call is glued to a text that was cut",
        "`Once upon a tiDone.`",
        _TURN,
        "            if message.calls and self._begun:",
        "            if False:",
        "tests/sessions/test_turn_cut.py::test_what_comes_behind_a_call_is_apart_from_the_text_that_was_cut",
    ),
    bug(
        "what is written next is shown in a text that is on its way",
        "in groups the text that was shown is overwritten",
        "goclaw/channels/telegram/previews.py",
        "        if view.settling:\n",
        "        if False:\n",
        f"{_LIVE}::test_nothing_more_is_written_into_a_text_that_is_on_its_way",
    ),
    bug(
        "goclaw send leaves an empty line behind a turn that ends without another text",
        "seen: a script gets one line too many",
        "goclaw/cli/talk.py",
        "    if ended.text and not is_told:\n",
        "    if not is_told:\n",
        "tests/cli/test_talk.py::test_what_is_said_before_tool_calls_is_printed_before_the_answer",
    ),
    bug(
        "where the tools fill a small window a person is told to /clear",
        "seen with a window of 8,192 tokens: /clear frees nothing of the 7,000 that prompt and tools take",
        "goclaw/sessions/compacting.py",
        "    if 2 * fixed < left:\n",
        "    if fixed < 2 * left:\n",
        "tests/sessions/test_compacting.py::test_where_prompt_and_tools_fill_the_window_it_says_so_and_not_to_clear",
    ),
    bug(
        "goclaw send prints the last answer alone",
        "the answer of a model that then calls a tool was lost",
        "goclaw/cli/talk.py",
        "        if message.is_interim:",
        "        if False:",
        "tests/cli/test_talk.py::test_what_is_said_before_tool_calls_is_printed_before_the_answer",
    ),
]
