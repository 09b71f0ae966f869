"""Bugs in a copy of the database, and in the files that Postgres has, too."""

from tests.mutations.bug import Bug, bug

_COPY = "tests/program/ops/test_store_copy.py"
_SILENT = "tests/durable/store/postgres/test_database_silent.py"
_OF_DOCUMENTS = "tests/durable/store/postgres/test_documents.py"

BUGS: list[Bug] = [
    bug(
        "a start on SQLite says nothing of the Postgres that the folder was used with",
        "class replicas: `store` forgotten on one machine, whose people begin anew",
        "goclaw/program/app/opening.py",
        "    await asyncio.to_thread(note_store, config)\n",
        "",
        "tests/program/app/test_opening.py::test_a_start_without_the_store_that_the_folder_was_used_with_says_so",
    ),
    bug(
        "a changed password of Postgres needs a restart",
        "class rotation of secrets: all gateways stand still, and nothing says why",
        "goclaw/common/config/values.py",
        "        found = (_content(self.password_file) if self.password_file else None) or self.password\n",
        "        found = self.password\n",
        "tests/durable/store/postgres/test_connecting_password.py"
        "::test_a_password_that_was_changed_is_read_again_for_a_new_connection",
    ),
    bug(
        "each connection to a Postgres that stands still is waited for anew",
        "class outage: people hear nothing for a minute",
        "goclaw/durable/store/postgres/silence.py",
        "            given_up |= self._waiting\n",
        "",
        f"{_SILENT}::test_of_a_postgres_that_stands_still_only_the_first_look_waits_long",
    ),
    bug(
        "a statement that waits its turn for a connection waits for each one before it",
        "class outage: people hear nothing for a minute",
        "goclaw/durable/store/postgres/silence.py",
        "        if self.lasts and _now() < self._next_try:\n",
        "        if self.lasts and _now() < 0:\n",
        f"{_SILENT}::test_of_a_postgres_that_stands_still_only_the_first_look_waits_long",
    ),
    bug(
        "a heartbeat keeps the connection of the duties for as long as Postgres stands still",
        "found by a frozen Postgres: the duty of polling did not end, and nobody on Telegram was told",
        "goclaw/durable/store/postgres/duties.py",
        "        with cut_after(connection, self._stall):\n            yield\n",
        "        yield\n",
        f"{_SILENT}::test_duties_end_although_a_heartbeat_waits_for_a_frozen_postgres",
    ),
    bug(
        "one slow statement counts as a Postgres that does not answer",
        "class outage: a report of thirteen seconds keeps everybody out",
        "goclaw/durable/store/postgres/silence.py",
        "        if self._answered_at <= began:  # else these statements alone are slow\n",
        "        if True:\n",
        f"{_SILENT}::test_a_slow_statement_is_cut_and_other_ones_go_on",
    ),
    bug(
        "the message of one person that cannot be stored ends the telling of another",
        "found by a frozen Postgres: one of three was never told",
        "goclaw/durable/engine/machine_faults.py",
        'await finish_despite_cancel(self._deliver(channel, inbound, text, key), "telling of an outage")',
        "await self._deliver(channel, inbound, text, key)",
        "tests/durable/engine/test_machine_faults_outage.py"
        "::test_a_person_is_told_although_the_intake_of_messages_ends_meanwhile",
    ),
    bug(
        "a variable in the path of a folder becomes the folder's name",
        "openclaw #70901: `$HOME` is passed through literally",
        "goclaw/common/config/values.py",
        "    if found := _VARIABLE.search(str(value)):\n",
        "    if found := None:\n",
        "tests/common/config/test_load.py",
    ),
    bug(
        "a step of the schema waits for a table as long as it takes",
        "class upgrade: everyone waits behind an ALTER TABLE that waits for a dump",
        "goclaw/durable/store/postgres/schema.py",
        "set_config('lock_timeout', '500ms', true)",
        "set_config('lock_timeout', '0', true)",
        "tests/durable/store/postgres/test_schema_upgrade.py::test_a_step_that_waits_for_a_transaction_lets_others_pass",
    ),
    bug(
        "procrastinate's last migrations are made beside older gateways",
        "class upgrade: functions are gone that older replicas call",
        "goclaw/durable/store/postgres/ownership_schema.py",
        "    if wanted and (older := await _older_gateways(connection)):",
        '    if wanted and (older := ""):',
        "tests/durable/store/postgres/test_schema_upgrade.py"
        "::test_what_older_ones_do_not_survive_in_procrastinates_tables_waits_until_none_runs",
    ),
    bug(
        "a connection is ended for the name that a stranger gave it",
        "class deployments: another one's connection is cut by a superuser's gateway",
        "goclaw/durable/store/postgres/ownership_schema.py",
        "        AND a.usename = current_user AND a.backend_start",
        "        AND a.backend_start",
        "tests/durable/store/postgres/test_ownership_deployments.py"
        "::test_a_stranger_that_calls_itself_as_a_dead_process_neither_loses_its_connection_nor_ends_our_look",
    ),
    bug(
        "a copy of the database counts without being read again",
        "class copy: rows that came in differently, found when the source is gone",
        "goclaw/durable/store/postgres/copying.py",
        "            if different := list(differing(wanted, came)):",
        "            if different := list(differing(wanted, wanted)):",
        f"{_COPY}::test_rows_that_come_in_differently_are_taken_back",
    ),
    bug(
        "a copy goes into a schema that is in use",
        "class copy: two histories, one of which is gone",
        "goclaw/program/ops/store_copy.py",
        "        if not replace and (found := await _rows(database)):",
        "        if found := {}:",
        f"{_COPY}::test_rows_of_the_target_are_refused_or_kept",
    ),
    bug(
        "an id whose row is gone is given again after a copy to SQLite",
        "class copy: a run of a schedule counts as one of another",
        "goclaw/durable/store/postgres/copying.py",
        '        file.execute("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, used))',
        "        del used",
        f"{_COPY}::test_all_rows_come_to_postgres_and_back_as_they_were",
    ),
    bug(
        "a picture that was removed elsewhere comes back from a folder that was left behind",
        "class privacy: forgotten, and there again after a fail-over",
        "goclaw/durable/store/postgres/state_media.py",
        "        if is_known:",
        "        if not stored:",
        "tests/durable/store/postgres/test_state_media.py::test_a_picture_that_was_removed_elsewhere_does_not_come_back",
    ),
    bug(
        "a file that was changed in two folders is written over",
        "class files: the work of an administrator is lost",
        "goclaw/durable/store/postgres/documents.py",
        "            if not self._folder.set_aside(name):",
        "            if False:",
        f"{_OF_DOCUMENTS}::test_of_two_changes_the_one_in_the_database_counts_and_the_other_is_kept",
    ),
    bug(
        "a file that was rewritten is taken for one to which something was added",
        "class files: blanked words stay in the database",
        "goclaw/durable/store/postgres/stored_files.py",
        "    return len(data) > size and hashlib",
        "    return len(data) > 0 or hashlib",
        "tests/durable/store/postgres/test_state_audits.py::"
        "test_what_is_added_to_a_file_is_sent_alone_and_a_file_that_was_rewritten_as_a_whole",
    ),
    bug(
        "a file that is only about to get its name is sent",
        "class files: half a users.json on another machine",
        "goclaw/durable/store/postgres/state_folder.py",
        'fnmatchcase(name, "*.json.new") or ',
        "",
        f"{_OF_DOCUMENTS}::test_what_is_secret_or_belongs_to_a_machine_is_no_document",
    ),
]
