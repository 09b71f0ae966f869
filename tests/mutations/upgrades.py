"""Bugs in the end of an upgrade that was cut, and in what an uninstallation takes for its own."""

from tests.mutations.bug import Bug, bug

_RECOVERY = "goclaw/program/ops/upgrade/recovery.py"
_CUT = "tests/program/ops/upgrade/test_recovery.py"
_SNAPSHOT = "goclaw/program/ops/upgrade/snapshot.py"
_UNINSTALL = "goclaw/program/ops/uninstall.py"
_OWN = "tests/program/ops/test_uninstall.py"

BUGS: list[Bug] = [
    bug(
        "what was said since the commit is replaced by the state from before",
        "an upgrade whose last step is cut",
        _RECOVERY,
        "        return found.is_exchanged and not journal.is_uncommitted(config.state_dir)\n",
        "        return False\n",
        f"{_CUT}::test_a_commit_is_finished_and_keeps_what_the_new_version_wrote",
    ),
    bug(
        "an upgrade is undone under a daemon that is about to commit it",
        "kill -9 of the upgrade while the new daemon starts",
        _RECOVERY,
        "    if running_pid(config) is not None:\n        return None",
        "    if False:\n        return None",
        f"{_CUT}::test_a_daemon_that_is_about_to_commit_is_left_alone",
    ),
    bug(
        "the old program finds the database of the new one",
        "rolling back the program alone",
        _RECOVERY,
        "        snapshot.put_back(state_dir)\n",
        "",
        f"{_CUT}::test_a_switch_without_a_commit_brings_back_program_and_data",
    ),
    bug(
        "the log of the new database is read into the old one",
        "a copy of an SQLite file beside a log of another",
        _SNAPSHOT,
        "        if path.name.endswith(_LOGS) and path.is_file():\n            path.unlink()\n",
        "        if path.name.endswith(_LOGS) and path.is_file():\n            continue\n",
        f"{_CUT}::test_a_log_of_the_new_database_goes_with_it",
    ),
    bug(
        "half a snapshot is put back",
        "kill -9 while it is taken",
        _SNAPSHOT,
        '    fresh = state_dir / f"{FOLDER}.new"\n',
        "    fresh = state_dir / FOLDER\n",
        f"{_CUT}::test_a_snapshot_has_its_name_when_it_is_whole",
    ),
    bug(
        "an environment of somebody else's is removed",
        "a project with a .venv of its own",
        _UNINSTALL,
        '        if _is_own_folder(path) and (path / "pyvenv.cfg").is_file() '
        "and any((path / s).is_file() for s in STAMPS):\n",
        '        if (path / "pyvenv.cfg").is_file():\n',
        f"{_OWN}::test_an_environment_without_our_stamp_or_behind_a_link_is_not_ours",
    ),
    bug(
        "a state folder goes with all that somebody keeps in it",
        "rm -rf of a folder that is shared",
        _UNINSTALL,
        "        for path in (each for each in entries if is_ours(each.name) and each.name != LOCK):\n",
        "        for path in (each for each in entries if each.name != LOCK):\n",
        f"{_OWN}::test_a_state_folder_goes_but_for_what_is_not_ours",
    ),
    bug(
        "an upgrade needs a newer Python than the one that runs",
        "filters of tarfile on the Python of Debian 12",
        "goclaw/program/ops/upgrade/checkout.py",
        "        members.extractall(folder)  #",
        '        members.extractall(folder, filter="data")  #',
        "tests/program/ops/upgrade/test_checkout.py::test_a_version_is_unpacked_by_a_python_whose_tarfile_has_no_filters",
    ),
    bug(
        "every line in the journal has the same priority",
        "lines on standard error without the prefix of sd-daemon(3)",
        "goclaw/common/health/log_lines.py",
        '    return with_priority(plain_line({**event, "timestamp": ""}), PRIORITIES.get(event["level"], INFO))',
        '    return plain_line({**event, "timestamp": ""})',
        "tests/common/health/test_log_lines.py::test_each_line_for_the_journal_has_the_priority_of_its_record_and_no_second_time",
    ),
    bug(
        "systemd starts a daemon that was stopped after a failure",
        "`stop` in the seconds before a restart",
        "goclaw/program/cli/lifecycle.py",
        "    manager = manager_for(loaded) if pid is None else None",
        "    manager = manager_for(loaded) if pid is not None else None",
        "tests/program/cli/test_service.py::test_a_stop_between_a_failure_and_the_next_start_ends_the_service",
    ),
]
