"""Bugs in what one process does in a conversation that another one has."""

from tests.mutations.bug import Bug, bug

_GATEWAY = "goclaw/gateway/intake/owners.py"
_GATEWAYS = "tests/gateway/intake/test_owners.py"
_SESSIONS = "goclaw/durable/engine/leased_sessions.py"
_LANES_TESTS = "tests/durable/engine/test_leases.py"
_CLIENTS = "tests/program/app/test_mcp_server_replicas.py"
_SUPERVISION, _SUPERVISION_TESTS = "goclaw/common/core/supervise.py", "tests/common/core/test_supervise.py"

BUGS: list[Bug] = [
    bug(
        "an answer that is committed while the outbox resumes is queued twice",
        "class crash: a double without a mark at a start, where a resumed turn ends in that moment",
        "goclaw/durable/engine/outbox.py",
        "if progress.delivery.id not in self._resumed]",
        "]",
        "tests/durable/engine/test_outbox_resume.py::"
        "test_what_is_committed_before_the_rest_is_taken_up_and_queued_after_arrives_once",
    ),
    bug(
        "a request that was lost by ownership is tried again as one that the network lost",
        "class replicas: a chat is mute for a day after a gateway was paused in an edit",
        "goclaw/channels/telegram/request.py",
        "        if isinstance(error.__cause__, OwnershipLost):\n",
        "        if isinstance(error.__cause__, OwnershipLost) and not method:\n",
        "tests/channels/telegram/test_request.py"
        "::test_a_request_of_a_process_that_has_lost_the_session_is_not_sent_and_is_no_failure_of_the_network",
    ),
    bug(
        "a delivery is tried again without a look whose it is",
        "class replicas: a chat is mute for a day after a gateway was paused in an edit",
        "goclaw/durable/engine/outbox.py",
        "                    await progress.clearance()  # the next owner of the session sends it\n",
        "                    pass\n",
        "tests/durable/engine/test_outbox_pause.py"
        "::test_a_try_that_was_lost_by_ownership_is_not_repeated_and_holds_up_no_answer_after_it",
    ),
    bug(
        "a process that has just woken answers from its memory",
        "class replicas: a press is answered that there is no such question, and dropped",
        _GATEWAY,
        "                await self.sessions.ownership.check(fence)\n",
        "",
        f"{_GATEWAYS}::test_a_press_that_reaches_a_daemon_that_has_just_woken_answers_the_question_of_the_next_owner",
    ),
    bug(
        "an agent that works for an MCP client writes on in a conversation that another gateway has forgotten",
        "class replicas: what was forgotten is there again",
        "goclaw/conversation/turns/external_runs.py",
        "        await self.ownership.end_beside(session)\n",
        "        pass\n",
        f"{_CLIENTS}"
        "::test_what_is_forgotten_does_not_come_back_with_an_agent_that_works_for_a_client_of_another_gateway",
    ),
    bug(
        "MCP clients hear only what their own gateway stores",
        "class replicas: a client shows an old conversation for ever",
        "goclaw/program/app/mcp_server.py",
        "                if row > self._rows.get(session, 0):",
        "                if row < self._rows.get(session, 0):",
        f"{_CLIENTS}::test_a_subscriber_hears_of_what_another_gateway_stores_and_of_new_conversations_there",
    ),
    bug(
        "a message that arrives at its owner is also taken up from the journal",
        "class replicas: answered twice, when a look falls between the commit and the lane",
        _SESSIONS,
        "                held.known.add(inbound.id)\n                try:",
        "                try:",
        f"{_LANES_TESTS}::test_a_message_that_an_owner_takes_in_while_it_looks_for_others_is_done_once",
    ),
    bug(
        "a message overtakes one that another process took in before",
        "class replicas: answers in another order than the messages",
        _SESSIONS,
        '                if any(row["id"] not in held.known for row in rows):',
        "                if not rows:",
        f"{_LANES_TESTS}"
        "::test_a_message_comes_behind_one_that_was_taken_in_elsewhere_before_its_owner_has_heard_of_that",
    ),
    bug(
        "a process goes on to take turns up after it was told that its session is another one's",
        "class replicas: work that is refused when it is done",
        "goclaw/durable/engine/leases.py",
        "            held.lease.is_lost = True\n",
        "",
        f"{_LANES_TESTS}::test_a_message_whose_lease_is_lost_meanwhile_is_answered_by_the_new_owner",
    ),
    bug(
        "an order overtakes the message that was taken in before it",
        "class replicas: /stop finds nothing, and then the turn begins",
        "goclaw/durable/engine/session_work.py",
        "            taken += await self._held.take_up(held, self._lanes.push)\n",
        "            taken += 0 if orders else await self._held.take_up(held, self._lanes.push)\n",
        "tests/durable/engine/test_leased_sessions.py"
        "::test_an_order_finds_what_was_taken_in_before_it_also_where_the_session_is_just_being_taken",
    ),
    bug(
        "a stranger makes orders",
        "class replicas: anyone who finds the bot fills the database",
        _GATEWAY,
        "        if not is_allowed:",
        "        if not is_allowed and inbound is None:",
        f"{_GATEWAYS}::test_a_stranger_makes_no_order_and_what_needs_no_owner_none_either",
    ),
    bug(
        "a command is carried out beside the owner of its conversation",
        "class replicas: /stop finds nothing to stop",
        _GATEWAY,
        '        return "anywhere" if command.anywhere else "command"',
        '        return "anywhere"',
        f"{_GATEWAYS}::test_a_turn_is_stopped_from_elsewhere_about_as_fast_as_here",
        f"{_GATEWAYS}::test_a_conversation_that_is_cleared_elsewhere_goes_on_without_the_old_context",
    ),
    bug(
        "a message from elsewhere waits though it should take the turn's place",
        "class replicas: /queue interrupt depends on where a message comes in",
        _GATEWAY,
        ' or mode == "interrupt"',
        "",
        f"{_GATEWAYS}::test_a_message_from_elsewhere_takes_the_place_of_the_turn_that_runs",
    ),
    bug(
        "an order is carried out long after its asker was told that it was not",
        "class replicas: /stop ends the next turn",
        "goclaw/durable/store/postgres/orders.py",
        "WHERE session = :session AND reply IS NULL AND until > clock_timestamp() ORDER BY seq",
        "WHERE session = :session AND reply IS NULL ORDER BY seq",
        "tests/durable/store/postgres/test_orders.py"
        "::test_an_order_whose_time_is_over_is_not_read_any_more_though_its_asker_is_gone",
    ),
    bug(
        "a gateway that is told to end while its connections are made never does",
        "python/cpython#86296: wait_for of Python 3.11 loses a cancellation",
        _SUPERVISION,
        "    async with background(work, name) as task:\n        await asyncio.wait({task})\n    return task.result()",
        "    return await work",
        f"{_SUPERVISION_TESTS}::test_a_cancellation_that_a_library_loses_is_raised_when_its_work_has_ended",
    ),
    bug(
        "a part that is told to end and fails of that is started again",
        "class replicas: a gateway does not end while Postgres goes away",
        _SUPERVISION,
        "await _end(task, error)",
        "await _end(task)",
        f"{_SUPERVISION_TESTS}::test_who_is_cancelled_is_when_a_background_task_fails_of_that",
    ),
]
