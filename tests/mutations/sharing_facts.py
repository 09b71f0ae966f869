"""Bugs of what several processes on one Postgres change."""

from tests.mutations.bug import Bug, bug

_FACTS = "tests/durable/store/postgres/test_database_facts.py"
_LOGINS = "tests/gateway/servers/web/test_login_replicas.py"
_DOCUMENTS = "goclaw/durable/store/postgres/documents.py"
_OF_DOCUMENTS = "tests/durable/store/postgres/test_documents.py"
_OF_AUDITS = "tests/durable/store/postgres/test_state_audits.py"
_STATE_FILES = "goclaw/durable/store/postgres/state_files.py"
_STORED = "goclaw/durable/store/postgres/stored_files.py"

BUGS: list[Bug] = [
    bug(
        "each of two gateways tells of the same fault",
        "class replicas: an alert for each of them, all night",
        "goclaw/durable/store/settings.py",
        "        return [*gone, _ADD(name=_check_fact(name), value=_json(value))]",
        "        return [*gone, _LEARN(name=_check_fact(name), value=_json(value))]",
        f"{_FACTS}::test_a_fault_that_both_processes_see_is_told_once",
    ),
    bug(
        "wrong pairing codes count when they have been compared",
        "class replicas: as many tries as are made at once",
        "goclaw/common/auth/pairing.py",
        "    await facts.learn(fact, now + CODE_SECONDS)\n",
        "",
        f"{_FACTS}::test_wrong_codes_count_in_both_processes_together",
    ),
    bug(
        "a code of the page lets in at each gateway",
        "class replicas: two browsers with one secret are one person's",
        "goclaw/common/auth/web_logins.py",
        "        if not await self._use_up(key):\n            raise LoginOver\n",
        "        await self._use_up(key)\n",
        f"{_LOGINS}::test_of_two_gateways_that_decide_at_once_one_does",
    ),
    bug(
        "a gateway whose clock is a moment late takes the page of another one for one from a clock that was set",
        "class replicas: under load codes are gone as soon as they are shown",
        "goclaw/common/auth/web_logins.py",
        " <= now + seconds + APART_SECONDS",
        " <= now + seconds",
        f"{_LOGINS}::test_clocks_of_gateways_that_are_a_moment_apart_change_nothing",
    ),
    bug(
        "the owner of any machine makes owners of pages on all",
        "class replicas: a guest of another machine asks there",
        "goclaw/common/auth/web_logins.py",
        'is_here = page["here"] == self.gateway',
        'is_here = bool(page["here"])',
        f"{_LOGINS}::test_the_owner_of_one_machine_makes_no_owner_of_a_page_on_another",
    ),
    bug(
        "rows are stamped by the clock of each machine",
        "class replicas: a deployment whose machines are an hour apart drops answers",
        "goclaw/durable/store/postgres/clock.py",
        "        return self._clock.now() if self._ahead is None else",
        "        return self._clock.now() if self._ahead is not None else",
        "tests/durable/store/postgres/test_clock.py",
    ),
    bug(
        "a process that was paused sends what another one has",
        "class replicas: SIGSTOP between the mark and the request",
        "goclaw/durable/engine/deliveries.py",
        "        if self.clearance is not None:\n",
        "        if False:\n",
        "tests/durable/engine/test_outbox_pause.py",
    ),
    bug(
        "a duty that has ended stays with its process",
        "class replicas: no one sweeps until that process ends",
        "goclaw/durable/store/postgres/duties.py",
        "            await single(connection, _LEAVE, duty)",
        "            await single(connection, _IS_THERE)",
        "tests/durable/store/postgres/test_duties.py::test_a_duty_that_ends_is_free_although_the_process_has_others",
    ),
    bug(
        "a summary that was owed is kept although the conversation was compacted since",
        "class replicas: what was hidden comes back",
        "goclaw/durable/store/transcripts.py",
        'where(_owed.c.id == bindparam("pays"), *_is_owed, _of_kept)',
        'where(_owed.c.id == bindparam("pays"), _of_kept)',
        "tests/conversation/compaction/test_summary_retries.py::"
        "test_what_two_processes_pay_at_once_is_kept_once_and_not_after_a_clear",
    ),
    bug(
        "of two people who are added on two gateways one is lost",
        "class files: the last writer wins",
        _DOCUMENTS,
        "                    self._bring(connection, name, entry, begins=False)\n",
        "",
        f"{_OF_DOCUMENTS}::test_a_change_in_a_stale_folder_is_made_to_the_present_document",
    ),
    bug(
        "an edit of a copy counts at the gateway where it was made",
        "class files: a token that was revoked goes on at one of three",
        _STATE_FILES,
        "await asyncio.to_thread(self._documents.edited)",
        "set[str]()",
        f"{_OF_DOCUMENTS}::test_an_edit_of_a_copy_does_not_count_and_is_set_aside",
    ),
    bug(
        "a change that the database does not have stays in the folder",
        "class files: refused, and in force all the same",
        _DOCUMENTS,
        "                    undo.callback(self._put_back, name, self._folder.find(name))\n",
        "",
        f"{_OF_DOCUMENTS}::test_a_change_that_cannot_be_stored_is_undone_in_the_folder",
    ),
    bug(
        "a version that another gateway has replaced is written over",
        "class files: a line of an audit log is lost",
        _STORED,
        'state_files.c.path == bindparam("name"), state_files.c.sha256 == bindparam("known")',
        'state_files.c.path == bindparam("name"), bindparam("known") != ""',
        "tests/durable/store/postgres/test_stored_files.py::test_a_version_that_is_not_there_any_more_is_not_replaced",
    ),
    bug(
        "a change on another gateway is fetched at a start alone",
        "class files: a token that was revoked goes on",
        _STATE_FILES,
        "for part in (self.follow_news, self.audits.send):",
        "for part in (self.audits.send,):",
        f"{_OF_DOCUMENTS}::test_a_change_at_one_gateway_is_in_force_at_the_other_within_a_second",
    ),
    bug(
        "a copy of a state folder writes into the audit log of the first one",
        "class files: the chain of one is gone",
        _DOCUMENTS,
        "            self._folder.chain = secrets.token_hex(4)\n",
        "",
        f"{_OF_AUDITS}::test_a_copy_of_a_folder_goes_on_with_an_audit_log_of_its_own",
    ),
    bug(
        "forgotten words stay in the audit logs of other gateways",
        "class privacy: /forget on one of several",
        "goclaw/durable/store/postgres/state_audits.py",
        "                less = await asyncio.to_thread(without_words, data, wanted)",
        "                less = data",
        f"{_OF_AUDITS}::test_forgotten_words_leave_the_audit_logs_of_all_gateways_also_of_those_that_are_gone",
    ),
    bug(
        "a gateway that was away sends what was forgotten meanwhile",
        "class privacy: /forget beside a gateway that was killed",
        "goclaw/durable/store/postgres/state_audits.py",
        "            if forgotten := await self._settings.facts(FORGOTTEN):",
        "            if forgotten := dict[str, float]():",
        "tests/durable/store/postgres/test_state_audits.py::"
        "test_what_a_killed_gateway_had_not_sent_does_not_come_back_once_it_is_forgotten",
    ),
    bug(
        "a log that was rotated counts as another gateway's",
        "class files: one audit log becomes two, and the words of the first stay",
        "goclaw/durable/store/postgres/state_audits.py",
        "        await asyncio.to_thread(self._blank, Blanking(numbers=blanked))\n        return True",
        "        return False",
        "tests/durable/store/postgres/test_state_audits.py::"
        "test_a_log_that_is_rotated_while_another_gateway_blanks_it_stays_one_chain_without_the_words",
    ),
    bug(
        "a name from the database leads out of the state folder",
        "class security: a row of the database is a file anywhere on the machine",
        _STORED,
        ' and ".." not in path.parts',
        "",
        f"{_OF_DOCUMENTS}::test_a_name_that_no_gateway_stores_is_written_nowhere",
    ),
    bug(
        "one file that cannot be written holds up all others",
        "class files: a token that was revoked goes on",
        _DOCUMENTS,
        "                troubles[name] = error",
        "                raise",
        f"{_OF_DOCUMENTS}::test_one_copy_that_cannot_be_written_holds_up_no_other",
    ),
    bug(
        "a picture is removed that another gateway has just put",
        "class files: an answer without its picture",
        _STORED,
        'state_files.c.path == bindparam("name"), state_files.c.changed_at < bindparam("until")',
        'state_files.c.path == bindparam("name"), bindparam("until") > 0.0',
        "tests/durable/store/postgres/test_state_media.py::"
        "test_a_picture_that_one_removes_leaves_the_folder_of_the_other_but_not_one_that_is_kept_anew",
    ),
]
