"""Bugs in what people are shown of rights, in presets, and in what a role asks for and may spend."""

from tests.mutations.bug import Bug, bug

BUGS: list[Bug] = [
    bug(
        "the texts about rights name tools that authorize refuses",
        'issue 25: the list says "all tools" for a role with eight',
        "goclaw/tools/toolkit/effective_rights.py",
        "sorted(registry.visible_to(actor), key",
        "sorted(registry.specs(), key",
        "tests/tools/toolkit/test_effective_rights.py::test_every_text_says_what_authorize_answers",
    ),
    bug(
        "what a role asks for is not asked",
        "issue 25: presets say what asks",
        "goclaw/common/auth/access.py",
        "        if not (self._has_asking_roles or self._users.roles & GUESTS.keys()):\n            return False\n"
        "        return any(",
        "        return self._has_asking_roles and all(",
        "tests/tools/approval/test_policy.py::test_a_role_asks_for_its_people_alone",
    ),
    bug(
        "a person may spend what the dearest of their roles allows",
        "issue 25: a daily budget by preset",
        "goclaw/common/auth/daily_budget.py",
        "cheapest, cost_key = min(costs,",
        "cheapest, cost_key = max(costs,",
        "tests/common/auth/test_daily_budget.py::test_roles_go_before_limits_and_the_lowest_counts",
    ),
    bug(
        "a role stays when its person cannot be written",
        "issue 25: nothing half-written",
        "goclaw/program/cli/rights.py",
        "        if before is None:\n            file.unlink(missing_ok=True)\n",
        "        if before is None:\n            pass\n",
        "tests/program/cli/test_rights_presets.py::test_a_role_is_taken_back_when_the_entry_cannot_be_written",
    ),
    bug(
        "a child's workspace shows the shared one",
        "issue 25: no file writes outside an own workspace",
        "goclaw/common/auth/preset_entries.py",
        '"private": private_workspace(config, key)}',
        '"private": "own"}',
        "tests/program/cli/test_rights_presets.py::test_a_child_has_files_of_its_own_alone_and_no_commands",
    ),
]
