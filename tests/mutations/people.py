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
    bug(
        "two people come in by one invitation",
        "issue 46: an invitation is good once, over gateways",
        "goclaw/common/auth/invitations.py",
        'return found if found and await facts.unlearn(f"{FACT}:{found.code}") else None',
        'await facts.unlearn(f"{FACT}:{code}")\n    return found',
        "tests/common/auth/test_pairing_presets.py::test_of_several_who_send_an_invitation_at_once_one_is_let_in",
    ),
    bug(
        "invitations can be tried out without end",
        "issue 46: wrong tries are counted over restarts and gateways",
        "goclaw/common/auth/pairing.py",
        "        if seconds:\n            return False\n        invitation = await",
        "        invitation = await",
        "tests/common/auth/test_pairing_presets.py::test_invitations_cannot_be_tried_out_not_even_over_restarts",
    ),
    bug(
        "a code makes an admin",
        "issue 46: an invitation is never an admin's",
        "goclaw/common/auth/presets.py",
        "    if find_preset(name).role == ADMIN:\n        raise ConfigError(",
        "    if find_preset(name).role == ADMIN:\n        return PRESETS[name]\n        raise ConfigError(",
        "tests/common/auth/test_pairing_presets.py::test_an_invitation_makes_no_admin_and_names_a_person",
    ),
    bug(
        "whoever presses it changes somebody's preset",
        "issue 46: buttons below the answer to /pair approve are an admin's",
        "goclaw/gateway/intake/gateway.py",
        'actor.behalf or not self.ports.access.authorize(actor, "command.admin", "pair").allowed',
        "actor.behalf",
        "tests/common/auth/test_pairing_presets.py::test_over_telegram_a_button_changes_the_preset_for_an_admin_alone",
    ),
    bug(
        "a reminder to another chat needs no right",
        "issue 46: /remind is enough for a reminder to oneself alone",
        "goclaw/conversation/schedules/scheduler.py",
        "job.personal and not job.elsewhere and",
        "job.personal and",
        "tests/gateway/intake/commands/test_schedules.py::test_who_may_use_remind_alone_reminds_nobody_else",
    ),
]
