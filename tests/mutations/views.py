"""Bugs in what readers at one gateway see of a conversation that another one works on."""

from tests.mutations.bug import Bug, Patch, bug

_TESTS = "tests/durable/engine/views/test_remote_sessions.py"
_RANDOM = "tests/durable/engine/views/test_remote_sessions_random.py"
_MIRRORS = "goclaw/durable/engine/views/mirrors.py"
_WATCHERS = "goclaw/durable/engine/views/watchers.py"
_PARCELS = "goclaw/durable/engine/views/parcels.py"
_BUS = "goclaw/durable/engine/views/remote_sessions.py"

BUGS: list[Bug] = [
    bug(
        "what is heard after a break is shown before the state is known again",
        "class views: words are missing in the middle of an answer",
        _MIRRORS,
        "        self._breaks += 1\n        self.is_current.clear()\n",
        "        self._breaks += 1\n",
        f"{_TESTS}::test_after_a_break_of_the_connection_nothing_is_missing_and_nothing_double",
        _RANDOM,
    ),
    bug(
        "the state of a session is shown as if nothing of it were known",
        "class views: what was streamed stands there twice",
        _MIRRORS,
        "        if text := now.text[len(known.text) :]:",
        "        if text := now.text:",
        f"{_TESTS}::test_after_a_break_of_the_connection_nothing_is_missing_and_nothing_double",
        _RANDOM,
    ),
    Bug(
        "a gateway that lost a session still tells of it",
        "class views: an answer with words of a dead one in it",
        (
            Patch(
                _MIRRORS,
                "        if (parcel.epoch, parcel.number) <= (self._epoch, self._number):",
                "        if parcel.epoch == self._epoch and parcel.number <= self._number:",
            ),
            Patch(_MIRRORS, "        if parcel.epoch != self._epoch:", "        if parcel.epoch > self._epoch:"),
        ),
        (f"{_TESTS}::test_another_owner_goes_on_and_the_answer_begins_anew", _RANDOM),
    ),
    bug(
        "rows that a dead gateway has stored and not told are left out",
        "class views: an answer that is nowhere on the screen",
        _MIRRORS,
        "        self._show_rows(rows, row)\n        if ended",
        "        self.row = max(self.row or 0, row or 0)\n        if ended",
        f"{_TESTS}::test_what_a_dead_owner_has_stored_and_not_told_is_shown_by_the_next_one",
        _RANDOM,
    ),
    bug(
        "a question without a turn is told as the running turn's",
        "class views: a program gets a question to another person in place of its answer",
        _MIRRORS,
        'QuestionAsked(turn if question.has_turn else "", self.session, question)',
        "QuestionAsked(turn, self.session, question)",
        "tests/durable/engine/views/test_mirrors.py::test_a_question_without_a_turn_is_none_of_the_running_turn",
    ),
    bug(
        "a turn that ended without a word runs for ever",
        "class views: `working` until the page is closed",
        _BUS,
        "                await mirror.check()",
        "                pass",
        f"{_TESTS}::test_a_turn_that_ended_without_a_word_does_not_run_for_ever",
    ),
    bug(
        "a row that is stored and not told yet does not end the text that is written",
        "class views: an answer stands there twice",
        "goclaw/durable/engine/views/stored_views.py",
        "    return last.row - 1 if is_being_written else last.row",
        "    return last.row",
        f"{_TESTS}::test_a_row_that_is_stored_and_not_published_yet_is_not_shown_twice",
    ),
    bug(
        "what could not be sent is forgotten",
        "class views: words of an outage are missing",
        _PARCELS,
        "            self._missed(session, frozenset(replicas))",
        "            del replicas",
        f"{_TESTS}::test_what_could_not_be_sent_is_told_again",
    ),
    bug(
        "equal messages are one",
        "class views: Postgres sends equal notices of a transaction once",
        "goclaw/durable/store/postgres/exchange.py",
        '            yield f"{self.replica} {number} {left} {piece}"',
        '            yield f"{self.replica} 1 {left} {piece}"',
        "tests/durable/store/postgres/test_exchange.py::test_equal_messages_that_go_out_together_are_all_heard",
    ),
    bug(
        "events are sent whether anyone elsewhere reads or not",
        "class cost: every word of every turn goes through Postgres",
        _WATCHERS,
        "        if told := self._told.get(session):\n            self.queue",
        "        if told := self._told.get(session) or frozenset({''}):\n            self.queue",
        f"{_TESTS}::test_an_owner_without_readers_elsewhere_sends_nothing",
    ),
    bug(
        "what is kept for a client that was cut off has gaps",
        "class views: it goes on, and lacks what nobody heard meanwhile",
        _BUS,
        "                    self._bus.forget(session)\n            if gone:",
        "                    pass\n            if gone:",
        f"{_TESTS}::test_a_session_that_nobody_reads_any_more_is_not_sent",
    ),
]
