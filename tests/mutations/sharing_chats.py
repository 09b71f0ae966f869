"""Bugs of a channel on several processes."""

from tests.mutations.bug import Bug, bug

_UPDATES = "tests/channels/telegram/test_media_groups_processes.py"
_LIMITS = "tests/channels/telegram/test_rate_limits_shared.py"
_PREVIEWS = "tests/channels/telegram/test_live_message_ids.py"

BUGS: list[Bug] = [
    bug(
        "an album is handed over by the process that has not got its last part",
        "class replicas: each gathers in its own memory",
        "goclaw/durable/store/channel_state.py",
        'age_of(media_groups.c.changed_at) >= bindparam("quiet", type_=Float)',
        'bindparam("quiet", type_=Float) >= 0.0',
        f"{_UPDATES}::test_a_process_waits_for_the_parts_that_another_one_gets",
    ),
    bug(
        "what a process gathered that died is left",
        "class replicas: parts are acknowledged, and no process hands them over",
        "goclaw/channels/telegram/update_handler.py",
        "            for name, chat in await self.albums.list_idle(LEFT_SECONDS):",
        "            for name, chat in ():",
        f"{_UPDATES}::test_the_one_with_the_duty_hands_over_what_nothing_follows",
    ),
    bug(
        "a group that moved begins a new conversation on another process",
        "class replicas: migrations are in the memory of the process that heard of them",
        "goclaw/channels/telegram/update_handler.py",
        "            await self.access.migrations.refresh(chat, is_message=MEMBERSHIP not in update)",
        "            pass",
        f"{_UPDATES}::test_a_group_that_moved_goes_on_in_the_session_that_it_had_on_every_process",
    ),
    bug(
        "each process sends as much as the bot may",
        "class replicas: thirty messages a second times the processes",
        "goclaw/channels/telegram/channel.py",
        "ports.clock, processes.share)",
        "ports.clock, None)",
        f"{_LIMITS}::test_three_senders_keep_the_limit_of_one_bot_also_while_one_joins_and_one_leaves",
    ),
    bug(
        "a process that begins takes its part before the others leave it",
        "class replicas: the limit is passed whenever one joins",
        "goclaw/durable/store/postgres/channel_processes.py",
        "self._joined_at, self._has_met = before, others > 0",
        "self._joined_at, self._has_met = before, False",
        f"{_LIMITS}::test_a_process_uses_its_part_when_the_others_have_counted_it_and_next_to_nothing_before",
    ),
    bug(
        "what a process sent that leaves is not counted any more",
        "class replicas: the limit is passed whenever one leaves",
        "goclaw/durable/store/postgres/channel_processes.py",
        "return 1 / (1 + self._others + gone)",
        "return 1 / (1 + self._others)",
        f"{_LIMITS}::test_a_process_uses_its_part_when_the_others_have_counted_it_and_next_to_nothing_before",
    ),
    bug(
        "a process goes on with what it counted before it stood still",
        "class replicas: one that wakes uses a part that the others have divided",
        "goclaw/durable/store/postgres/channel_processes.py",
        "if self._counted_at is None or now - self._counted_at > self._valid:",
        "if self._counted_at is None:",
        f"{_LIMITS}::test_a_process_that_stood_still_is_a_newcomer_again",
    ),
    bug(
        "a process keeps the secret that it made though another one was the first",
        "class replicas: two first starts, and one of them answers 403",
        "goclaw/channels/telegram/webhook.py",
        "        with writer(path):",
        "        with lock_folder(path):",
        "tests/channels/telegram/test_webhook_secret.py::test_a_secret_of_before_stays_and_one_that_lost_is_replaced",
    ),
    bug(
        "the preview of a process that died stays beside the answer",
        "class replicas: live messages are in the memory of one process",
        "goclaw/channels/telegram/live_message_ids.py",
        "        self._messages |= known",
        "        pass",
        f"{_PREVIEWS}::test_the_next_process_knows_which_message_grew_for_which_turn",
    ),
    bug(
        "a process polls before it has the duty",
        "class replicas: the early first poll cuts the poll of another one",
        "goclaw/channels/telegram/first_poll.py",
        " or isinstance(place, PostgresPlace):",
        ":",
        "tests/channels/telegram/test_listening.py::test_no_process_on_postgres_polls_before_it_has_the_duty",
    ),
    bug(
        "a process that was paused replaces what the next owner knows of a preview",
        "the fuzz of three replicas, 2026-11-28: an answer came twice, and was not marked",
        "goclaw/durable/store/channel_state.py",
        "        with under_fence(fence):\n",
        "        with under_fence(None):\n",
        f"{_PREVIEWS}::test_a_process_that_was_paused_does_not_replace_what_the_next_owner_knows_of_a_preview",
    ),
    bug(
        "a turn of a session that was taken begins before the answers that were promised before it",
        "the fuzz of three replicas, 2026-11-28: a preview stood above an older answer",
        "goclaw/durable/engine/session_work.py",
        "            taken = await self._outbox.send_unfinished(held.session, held.lease.fence)\n",
        "            taken = await self._held.send_unfinished(held, self._lanes.push)\n"
        "            taken += await self._outbox.send_unfinished(held.session, held.lease.fence)\n",
        "tests/durable/engine/test_leased_sessions.py::test_a_turn_begins_when_what_was_promised_before_waits_in_the_outbox",
    ),
    bug(
        "what a look for deliveries has passed over is not sent",
        "class delivery: promised again, while its row was there already",
        "goclaw/durable/engine/outbox.py",
        "        if fence and is_ours and not created:\n",
        "        if False:\n",
        "tests/durable/engine/test_leased_sessions_faults.py::"
        "test_a_delivery_of_a_dead_process_that_is_promised_again_is_sent_and_its_receipt_comes",
    ),
    bug(
        "a request that waited for its connection goes out after a pause",
        "the fuzz of three replicas, 2026-11-28: an answer came late, below a later one",
        "goclaw/common/net/client.py",
        "        if (check := AUTHORITY.get().before_sending) is not None:\n",
        "        if clear := None:\n",
        "tests/durable/engine/test_outbox_pause.py::test_a_request_asks_once_more_when_it_has_its_connection",
    ),
    bug(
        "a preview that waited for its connection goes out after a pause",
        "class replicas: SIGSTOP while a connection is made",
        "goclaw/channels/telegram/live.py",
        "        self._previews.guard(view)\n        while not view.ended.is_set():\n",
        "        while not view.ended.is_set():\n",
        "tests/channels/telegram/test_live_owners.py::"
        "test_a_process_that_is_paused_right_before_it_shows_something_shows_it_no_more",
    ),
    bug(
        "a turn that had said its last words asks the model again after a crash",
        "the fuzz of three replicas, 2026-11-28: an answer to what had been stopped",
        "goclaw/conversation/turns/service.py",
        "        if turn.has_record(SETTLE_STEP):",
        "        if False:",
        "tests/conversation/turns/test_service_stop.py::test_a_turn_whose_last_words_are_recorded_asks_no_more_after_a_crash",
    ),
    bug(
        "a process that was paused begins the turns of the next owner",
        "the fuzz of three replicas, 2026-11-28: the model was asked without the person's message",
        "goclaw/durable/engine/leases.py",
        "        if turns and not self.leases.is_sure_of(held.session, held.lease.fence.epoch):\n",
        "        if False:\n",
        "tests/durable/engine/test_leased_sessions.py::"
        "test_a_process_that_was_paused_before_it_reads_turns_begins_none_of_the_next_owner",
    ),
]
