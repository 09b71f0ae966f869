"""Bugs in what programs reach: OpenAI's protocol on the HTTP listener."""

from tests.mutations.bug import Bug, bug

_ASKING = "goclaw/servers/openai/asking.py"
_PLACES = "goclaw/servers/openai/places.py"
_PROGRAMS = "goclaw/servers/programs.py"
_READING = "goclaw/servers/openai/reading.py"
_REQUESTS = "goclaw/servers/openai/requests.py"
_ROUTES = "goclaw/servers/openai/routes.py"
_TESTS = "tests/servers/openai"

BUGS: list[Bug] = [
    bug(
        "a program writes in any session that it names",
        "a header with another user's key",
        _PLACES,
        '        if not self._ports.access.authorize(program.actor, "session.write", root_session(name)).allowed:',
        "        if False:",
        f"{_TESTS}/test_places.py::test_a_session_that_a_request_made_belongs_to_its_user",
    ),
    bug(
        "a key of one user finds another's turn",
        "two programs that count their requests from 1",
        _PROGRAMS,
        '    named = f"{user}\\n{session}\\n{key}" if key else uuid.uuid4().hex',
        "    named = key or uuid.uuid4().hex",
        f"{_TESTS}/test_places.py::test_a_key_is_one_user_s_in_one_session",
    ),
    bug(
        "a request that is sent again is a new turn",
        "a client that repeats what timed out",
        _PROGRAMS,
        '    named = f"{user}\\n{session}\\n{key}" if key else uuid.uuid4().hex',
        "    named = uuid.uuid4().hex",
        f"{_TESTS}/test_places.py::test_a_request_that_is_sent_again_has_the_same_answer",
    ),
    bug(
        "a revoked token reads its stream to the end",
        "a check at the beginning only",
        _ASKING,
        "            watch.objection, watch.gone = self._places.objection(wanted.program), wanted.gone()",
        "            watch.gone = wanted.gone()",
        f"{_TESTS}/test_asking.py::test_a_token_or_a_right_that_is_taken_away_ends_the_stream_and_the_turn",
    ),
    bug(
        "a turn goes on when its program is gone",
        "a page that is closed while the model writes",
        _ASKING,
        "            await self._ports.engine.cancel(wanted.place.session, 0.0)",
        "            pass",
        f"{_TESTS}/test_asking.py::test_a_turn_that_nobody_waits_for_any_more_is_stopped",
    ),
    bug(
        "a kept session's turn is stopped with its program",
        "a telephone that loses its network",
        _ASKING,
        "        if unwanted and not reader.is_over and not wanted.place.is_kept and",
        "        if unwanted and not reader.is_over and",
        f"{_TESTS}/test_asking.py::test_a_turn_of_a_kept_session_goes_on_without_its_caller",
    ),
    bug(
        "a caller that goes stops the turn of another one",
        "a retry beside its first try",
        _ASKING,
        " and self._awaited[wanted.turn] == 1:",
        ":",
        f"{_TESTS}/test_asking.py::test_a_turn_is_not_stopped_while_another_request_waits_for_it",
    ),
    bug(
        "a stateless request asks a person who sees nothing of it",
        "a turn that waits for nobody",
        _ASKING,
        "ask=place.is_kept,",
        "ask=True,",
        f"{_TESTS}/test_completions.py::test_a_call_that_would_ask_is_refused_and_the_answer_says_so",
    ),
    bug(
        "the answer for a program is said in its user's chat, too",
        "an unattended turn in a session of its own",
        "goclaw/turns/unattended.py",
        "        if inbound.unattended and inbound.unattended.awaited:",
        "        if False:",
        f"{_TESTS}/test_completions.py::test_the_client_s_history_is_the_conversation_before_the_message",
    ),
    bug(
        "memory finds what programs sent",
        "a session that is an agent's by its name",
        "goclaw/memory/transcript_indexer.py",
        "        case _ if PROGRAM_MARK in row.session:",
        '        case "user" if PROGRAM_MARK in row.session:',
        "tests/memory/test_transcript_indexer.py::test_nothing_of_a_program_s_request_is_found",
    ),
    bug(
        "the history goes past the operator's hooks",
        "messages that are stored beside the judged one",
        "goclaw/turns/hooking.py",
        '        return "message_in" in self.hooks.points',
        "        return False",
        f"{_TESTS}/test_asking.py::test_hooks_judge_the_history_too",
    ),
    bug(
        "a client's own tools are silently left out",
        "an ignored field",
        _REQUESTS,
        "        if self.tools:",
        "        if False:",
        f"{_TESTS}/test_requests.py::test_what_would_lose_its_meaning_is_refused_by_its_name",
    ),
    bug(
        "a token in the address lets in",
        "programs that send ?api_key=",
        _ROUTES,
        "        if request.query_string:",
        "        if False:",
        f"{_TESTS}/test_routes.py::test_a_token_in_the_address_is_refused",
    ),
    bug(
        "an earlier response is followed as if nothing came since",
        "a fork of a conversation",
        _ROUTES,
        "        if last not in (before, turn):",
        "        if False:",
        f"{_TESTS}/test_responses.py::test_a_response_is_followed_by_its_id_in_one_conversation",
    ),
    bug(
        "what a hook changed is taken for the rest of what was streamed",
        "a prefix that is none",
        _READING,
        "                is_begun = bool(begun) and text.strip().startswith(begun)",
        "                is_begun = bool(begun)",
        f"{_TESTS}/test_reading.py::test_an_answer_that_a_hook_changed_is_said_as_it_is_stored",
    ),
]
