"""Bugs in what the agent hands over, and in the person's folder on the page."""

from tests.mutations.bug import Bug, bug

_NAMED = "goclaw/conversation/turns/named_files.py"
_NAMED_TESTS = "tests/conversation/turns/test_named_files.py"
_FOLDERS = "goclaw/gateway/servers/api/folders.py"
_FOLDER_TESTS = "tests/gateway/servers/api/test_folders.py"
_LINKS = "tests/gateway/servers/openai/test_reading_files.py"

BUGS: list[Bug] = [
    bug(
        "a name in an answer reads any file of the workspace",
        "issue 48: once, after a check of rights",
        _NAMED,
        "            if not await self._may_read(path):\n                return None\n",
        "",
        f"{_NAMED_TESTS}::test_the_rights_of_the_read_tool_decide",
    ),
    bug(
        "an agent without the read tool hands files over",
        "a selection of tools that a side way forgets",
        _NAMED,
        "            not access.select(scope.selections, spec)\n            or ",
        "            ",
        f"{_NAMED_TESTS}::test_the_rights_of_the_read_tool_decide",
    ),
    bug(
        "a hook that forbids to read a file is not asked about its name",
        "a guard of the operator that a side way forgets",
        _NAMED,
        "        return not answer.deny and answer.input in (None, given)\n",
        "        return True\n",
        f"{_NAMED_TESTS}::test_a_hook_that_forbids_to_read_it_keeps_it",
    ),
    bug(
        "a file in a result for another person goes to them without a question",
        "the guard: sent elsewhere it stays a sink",
        "goclaw/conversation/turns/agent_services.py",
        " or self.agent_run.root.caller or is_for_another(inbound):\n            return ()\n",
        " or self.agent_run.root.caller:\n            return ()\n",
        f"{_NAMED_TESTS}::test_no_file_goes_to_another_person_with_a_result",
    ),
    bug(
        "a page has a private file named in a group, and it goes there",
        "others' words, a private file, and people outside: the guard's three, by a link",
        "goclaw/conversation/turns/agent_services.py",
        "        if has_others and self.window().foreign:\n            return ()\n",
        "",
        f"{_NAMED_TESTS}::test_after_words_of_others_no_file_goes_where_others_read",
    ),
    bug(
        "an owner's answer gives away the private notes of anybody",
        "a view without bounds for a schedule of the configuration",
        _NAMED,
        "return workspace.seen_by(self.viewer)",
        "return workspace",
        f"{_NAMED_TESTS}::test_private_notes_of_others_never_go_along_and_ones_own_to_no_group",
    ),
    bug(
        "a named file is lost when its copy cannot be stored at once",
        "a failure of the machine taken for a link that leads nowhere",
        _NAMED,
        "        except ToolError:\n            return None  # many links",
        "        except (ToolError, StateError):\n            return None  # many links",
        f"{_NAMED_TESTS}::test_a_disk_that_fails_for_a_moment_delays_the_answer_and_loses_no_file",
    ),
    bug(
        "a file that was sent comes again for its name",
        "issue 48: never doubled",
        "goclaw/conversation/turns/service.py",
        "each.kind == NAMED and each.blob not in sent]",
        "each.kind == NAMED]",
        "tests/conversation/turns/test_service_artifacts.py"
        "::test_a_named_file_goes_where_the_answer_goes_unless_a_call_sent_it",
        "tests/channels/test_contract.py::test_a_file_that_the_answer_names_comes_with_it_once",
    ),
    bug(
        "who may read may write by hand",
        "one right for all that a page does",
        _FOLDERS,
        '    workspace = await _open(call, "write", asked.path)\n    with count_upload',
        '    workspace = await _open(call, "read", asked.path)\n    with count_upload',
        f"{_FOLDER_TESTS}::test_the_rights_of_the_tools_decide",
    ),
    bug(
        "an argument that a role fixes is free by hand",
        "`roles.<name>.inputs` looked at by the dispatcher alone",
        _FOLDERS,
        "    return decision.allowed and decision.input in (None, given), ",
        "    return decision.allowed, ",
        f"{_FOLDER_TESTS}::test_an_argument_that_a_role_fixes_holds_here_too",
    ),
    bug(
        "an id of a file is all that its download takes",
        "capability links that anybody's token opens",
        "goclaw/gateway/servers/openai/places.py",
        '        return self._ports.access.authorize(program.actor, "session.read", root_session(session)).allowed\n',
        "        return True\n",
        f"{_LINKS}::test_a_file_that_the_answer_names_is_a_link_for_its_user_alone",
    ),
    bug(
        "a page of the workspace is shown as a page",
        "stored XSS by an upload that a browser renders",
        "goclaw/gateway/servers/downloads.py",
        '    headers = {**head, "Content-Type": UNKNOWN_TYPE, "Content-Disposition": disposition}\n',
        '    headers = {**head, "Content-Type": "text/html", "Content-Disposition": "inline"}\n',
        f"{_FOLDER_TESTS}::test_nothing_but_a_picture_is_shown_by_a_browser",
    ),
]
