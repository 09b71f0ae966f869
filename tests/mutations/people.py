"""Bugs in what people are shown of rights, in presets, and in what a role asks for and may spend."""

from tests.mutations.bug import Bug, bug

_OTHERS = "goclaw/conversation/schedules/messages_to_others.py"
_TO_OTHERS = "tests/conversation/schedules/test_messages_to_others.py"

BUGS: list[Bug] = [
    bug(
        "a message to another person goes without a yes",
        "issue 45: /schedule add --to another person, every minute",
        _OTHERS,
        '        if state == "allowed" or not self._must_agree(author, pair.to):',
        "        if state != '':",
        f"{_TO_OTHERS}::test_a_first_message_waits_for_the_receivers_yes_and_names_its_author",
    ),
    bug(
        "a message to another person does not say who sends it",
        "issue 45: unsigned messages of the bot",
        _OTHERS,
        'text=f"**From {name}:**\\n\\n{delivery.text}", ',
        "",
        f"{_TO_OTHERS}::test_a_message_of_the_agent_is_held_the_same_way",
    ),
    bug(
        "anybody answers for the receiver",
        "issue 45: consent of another",
        _OTHERS,
        "            return actor.key == to and not actor.behalf",
        "            return True",
        f"{_TO_OTHERS}::test_only_the_receiver_answers_in_a_private_chat",
    ),
    bug(
        "a later part of a long message stands without its author",
        "issue 45: a text that pushes the name into another message",
        "goclaw/channels/telegram/outgoing.py",
        "for part in with_note(chunk, name)",
        'for part in with_note(chunk, "")',
        "tests/channels/telegram/test_outgoing_parts.py::test_each_part_of_another_persons_words_names_the_author",
    ),
    bug(
        "the tools of a task speak in its receiver's chat",
        "issue 45: a task for another person",
        "goclaw/conversation/turns/agent_services.py",
        "address=Address(LOCAL, inbound.session) if is_for_another(inbound) else inbound.address,",
        "address=inbound.address,",
        f"{_TO_OTHERS}::test_a_tasks_result_for_another_person_is_held_and_signed_and_its_tools_do_not_speak_there",
    ),
    bug(
        "a command does what the policy refuses to the agent",
        "issue 45: commands were judged less strictly",
        "goclaw/conversation/schedules/requests.py",
        "        if job.elsewhere and not by_agent:",
        "        if False:",
        f"{_TO_OTHERS}::test_a_command_is_judged_as_the_agents_message_would_be",
    ),
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
        "        if not self._has_asking_roles:\n            return False\n        return any(",
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
        "goclaw/common/auth/presets.py",
        '"private": private_workspace(config, key)}',
        '"private": "own"}',
        "tests/program/cli/test_rights_presets.py::test_a_child_has_files_of_its_own_alone_and_no_commands",
    ),
]
