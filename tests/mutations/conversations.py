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
        "the first real model reads that no AI is connected",
        "class context: it goes on saying so",
        "goclaw/sessions/demo_turns.py",
        "            await self._leave_out(session, turn, since)\n",
        "",
        "tests/sessions/test_demo_turns.py::test_the_first_real_model_begins_a_fresh_context_and_the_person_reads_so",
    ),
    bug(
        "the summary model reads what the demo repeats",
        "class context: a summary of nothing",
        "goclaw/sessions/summaries.py",
        "        if await self._ports.repeats(self._session):\n            return ()\n",
        "",
        "tests/sessions/test_demo_turns.py::test_no_model_summarises_what_the_demo_said_neither_then_nor_later",
    ),
    bug(
        "a model is offered tools that are not set up",
        "class tools: calls that can only fail, and tokens for them in each request",
        "goclaw/toolkit/registry.py",
        "        return [tool.spec for tool in shown if not (tool.needs and tool.needs(self._access.config))]",
        "        return [tool.spec for tool in shown]",
        "tests/sessions/test_fitting_offered.py::"
        "test_what_cannot_work_is_not_offered_and_says_why_when_it_is_called_all_the_same",
    ),
    bug(
        "leaving plan mode changes the tools once more",
        "class cache: the provider reads the whole conversation anew",
        "goclaw/sessions/modes.py",
        "        return _planned(session) > 0 or self._access.mode",
        "        return self._access.mode",
        "tests/sessions/test_turn_cached_prefix.py::"
        "test_plan_mode_costs_the_prefix_once_in_a_context_also_over_a_restart",
    ),
    bug(
        "who is not the owner reads conversations of others past the tool that decides",
        "class rights: a second way to the index",
        "goclaw/memory/desk.py",
        '        if not actor.owner:\n            raise AccessDenied("only the owner of the state folder searches',
        '        if not actor:\n            raise AccessDenied("only the owner of the state folder searches',
        "tests/memory/test_desk.py::test_the_conversations_by_themselves_are_for_the_owner_alone",
    ),
    bug(
        "goclaw tool run searches no conversation beside a daemon",
        "class command line: a tool that works in the chat alone",
        "goclaw/cli/tooling.py",
        "        if listens(config) and config.memory.enabled:\n",
        "        if not config:\n",
        "tests/cli/test_memory.py::test_a_tool_that_is_run_alone_asks_the_daemon_for_conversations",
    ),
    bug(
        "a summary is stored as long as a model writes it",
        "class context: a limit that is only asked for",
        "goclaw/context/compaction.py",
        "    if estimate_text(whole) <= tokens:\n        return whole\n    prose",
        "    if tokens:\n        return whole\n    prose",
        "tests/sessions/test_compacting_summary_size.py::test_a_summary_that_is_too_long_is_stored_cut_with_the_names_of_what_was_said",
    ),
    bug(
        "the size of a conversation leaves out prompt and tools until its first request",
        "class status: a number that is not that of the next request",
        "goclaw/sessions/service.py",
        "            await self._measure(session, actor, kind, model, context_window)\n",
        "            pass\n",
        "tests/commands/test_status.py::"
        "test_tokens_include_prompt_and_tools_before_the_first_request_and_whatever_ended_the_last",
    ),
    bug(
        "a summary model that is tried again is called healthy with all its failures",
        "class status: a line that contradicts itself",
        "goclaw/context/health.py",
        "return self.failures if self.failures < self.threshold or self.degraded else 0",
        "return self.failures",
        "tests/commands/test_status.py::test_when_ollama_is_degraded",
    ),
    bug(
        "a summary that is owed is not counted while the summary model is left alone",
        "class status: what is missing is told when nothing is",
        "goclaw/sessions/status.py",
        '*([f"  Pending retries: {self.pending_retries}"] if self.pending_retries else []),',
        "",
        "tests/commands/test_status.py::"
        "test_less_than_a_minute_to_the_next_try_is_told_in_seconds_and_owed_summaries_are_counted",
    ),
    bug(
        "the window of a local model follows each request instead of the memory",
        "class local models: Ollama loads the model anew for every other value",
        "goclaw/llm/ollama.py",
        "        self._num_ctx = self._largest = fitting_window(",
        "        self._largest = fitting_window(",
        "tests/llm/test_ollama.py::test_the_window_fits_the_free_memory_and_stays_with_every_request",
    ),
    bug(
        "a restart of the daemon loads the local model anew, smaller each time",
        "class local models: what the model itself takes is not free",
        "goclaw/llm/ollama_window.py",
        "max(SMALLEST_BUCKET, footprint.loaded, fits)",
        "max(SMALLEST_BUCKET, fits)",
        "tests/sessions/test_service_num_ctx.py::"
        "test_one_window_that_fits_the_memory_serves_a_conversation_over_restarts",
    ),
    bug(
        "the memory of this machine decides for a server elsewhere",
        "class local models: a window that nothing there can hold",
        "goclaw/llm/ollama.py",
        "memory=here and not",
        "memory=not",
        "tests/llm/test_ollama.py::test_the_memory_of_this_machine_says_nothing_of_another_one",
    ),
    bug(
        "heads that differ by layer are not asked for",
        "class local models: short answers leave lists out",
        "goclaw/llm/ollama_facts.py",
        "        if key in info and not heads:\n",
        "        if key not in info:\n",
        "tests/llm/test_ollama_facts.py::test_heads_that_differ_by_layer_are_in_a_verbose_answer_only",
    ),
    bug(
        "answers and summaries of one local model have a window each",
        "class local models: two values in turn, two loads a turn",
        "goclaw/sessions/models.py",
        "            if spec not in self._opened:\n",
        "            if spec:\n",
        "tests/sessions/test_models.py::test_the_window_of_an_ollama_model_is_chosen_once_before_anything_is_asked",
    ),
    bug(
        "the conversation is not marked for the prompt cache",
        "class cache: the prefix stays the same, and is paid for anew with every request",
        "goclaw/llm/anthropic.py",
        "marked=bool(request.cache)",
        "marked=False",
        "tests/sessions/test_turn_cached_share.py::"
        "test_nine_tenths_of_a_conversation_are_read_from_the_cache_once_it_is_long_enough",
    ),
    bug(
        "the prompt cache of compatible servers sees another beginning each time",
        "class cache: something of the moment at the front",
        "goclaw/llm/encoded.py",
        '{"role": "system", "content": request.system}',
        '{"role": "system", "content": f"{len(spoken)} messages. {request.system}"}',
        "tests/sessions/test_turn_cached_share.py::"
        "test_a_server_that_caches_by_itself_gets_what_it_has_seen_byte_for_byte",
    ),
]
